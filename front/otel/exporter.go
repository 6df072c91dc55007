package otel

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tarehq/tare/front"
)

// reportEvery is the shortest time between two reports about lost spans.
const reportEvery = time.Minute

// exporter sends spans to a collector. It is the SpanExporter of its provider, too: that gives it
// batches. It reports lost spans here, because the SDK reports to a logger of the whole process.
type exporter struct {
	client   *otlptrace.Exporter
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	errors   *log.Logger
	endpoint string
	capacity int64 // spans that wait or are being sent

	ended atomic.Int64 // spans that were queued or dropped

	mu       sync.Mutex
	handled  int64 // spans that left the queue
	lost     int64 // of the handled ones
	failure  error // of the last lost batch
	dropped  int64 // spans that did not enter the queue, as far as is known
	isEnding bool  // shutdown reports what is lost
	reported time.Time
	sum      int64 // lost and dropped ones at the last report
}

func (e *exporter) export(s front.Span) {
	e.ended.Add(1)
	start(e.tracer, &s).End(trace.WithTimestamp(s.End))
}

// ExportSpans implements sdk.SpanExporter. It never fails: it reports errors itself.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.client.ExportSpans(ctx, spans)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handled += int64(len(spans))
	if err != nil {
		e.lost, e.failure = e.lost+int64(len(spans)), err
	}
	// what is neither handled nor has room was dropped
	e.dropped = max(e.dropped, e.ended.Load()-e.handled-e.capacity)
	now := time.Now()
	if e.isEnding || e.lost+e.dropped == e.sum || now.Sub(e.reported) < reportEvery {
		return nil
	}
	if err == nil {
		err = errQueueFull
	}
	e.errors.Printf("otel_exporter %s: %d spans lost: %v", e.endpoint, e.lost+e.dropped-e.sum, err)
	e.reported, e.sum = now, e.lost+e.dropped
	return nil
}

var errQueueFull = errors.New("the queue was full")

// Shutdown implements sdk.SpanExporter. The queue is empty. It returns no error, which the SDK
// would report itself.
func (e *exporter) Shutdown(ctx context.Context) error {
	_ = e.client.Shutdown(ctx)
	return nil
}

// shutdown sends what is queued, until ctx ends. It returns an error if it lost spans, or if others
// were lost and not reported.
func (e *exporter) shutdown(ctx context.Context) error {
	e.mu.Lock()
	e.isEnding = true
	e.mu.Unlock()
	err := e.provider.Shutdown(ctx)
	if err != nil {
		_ = e.client.Shutdown(ctx) // which ends the export in progress
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.ended.Load() - e.handled + e.lost - e.sum; n > 0 {
		if err == nil {
			err = e.failure
		}
		if err == nil {
			err = errQueueFull
		}
		return fmt.Errorf("%d spans to %s: %w", n, e.endpoint, err)
	}
	return nil
}
