//go:build otel

package cli

import (
	"github.com/tarehq/tare/front/otel"
	"github.com/tarehq/tare/front/server"
)

func spanTracing() server.Tracing { return otel.New() }
