//go:build otel

package cli

import (
	"github.com/tarehq/tare/front/otel"
	"github.com/tarehq/tare/front/server"
)

// spanTracing returns what exports spans.
func spanTracing() server.Tracing { return otel.New() }
