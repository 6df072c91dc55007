//go:build !otel

package cli

import "github.com/tarehq/tare/front/server"

// spanTracing returns nil: this build does not export spans.
func spanTracing() server.Tracing { return nil }
