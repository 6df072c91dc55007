package server

import (
	"context"
	"log"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// Tracing starts an exporter of spans. It does not wait for the collector. export queues a span, or
// drops it, and never blocks; any goroutine may call it, also after shutdown. shutdown sends what is
// queued until its context ends. Package front/otel has one, which this package does not import:
// programs without tracing do not carry gRPC.
type Tracing func(c conf.SpanExporter, errors *log.Logger) (export func(front.Span),
	shutdown func(context.Context) error, err error)

// flushTimeout limits sending what is queued when an exporter ends.
const flushTimeout = 3 * time.Second

type spanExporter struct {
	export   func(front.Span)
	shutdown func(context.Context) error
}

// newSpanExporter starts the exporter of a configuration; nil if it has none.
func (s *Server) newSpanExporter(c *Config, errors *log.Logger) (_ *spanExporter, err error) {
	if c.Process.SpanExporter == nil {
		return nil, nil
	}
	e := new(spanExporter)
	if e.export, e.shutdown, err = s.options.Tracing(*c.Process.SpanExporter, errors); err != nil {
		return nil, configError(err)
	}
	return e, nil
}

// exportSpan gives a span to the current exporter. Requests of an older configuration use it, too.
func (s *Server) exportSpan(span front.Span) {
	if e := s.spans.Load(); e != nil {
		e.export(span)
	}
}

// close sends what is queued, for a limited time. e may be nil.
func (e *spanExporter) close() error {
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	return e.shutdown(ctx)
}

// applySpanExporter replaces the exporter. The old one ends in the background.
func (s *Server) applySpanExporter(next *spanExporter) {
	if old := s.spans.Swap(next); old != nil {
		s.draining.Go(func() { s.closeSpanExporter(old) })
	}
}

// closeSpanExporter ends an exporter, and prints if it could not send everything.
func (s *Server) closeSpanExporter(e *spanExporter) {
	if err := e.close(); err != nil {
		s.log.print("warning: otel_exporter: spans were lost: " + err.Error())
	}
}
