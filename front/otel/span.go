package otel

import (
	"context"
	"encoding/hex"
	"log/slog"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tarehq/tare/front"
)

// givenIDs is an sdk.IDGenerator: the front has chosen the IDs, which are in the context.
type givenIDs struct{}

// maxText is how many bytes of a name, of a value and of tracestate are sent. Collectors reject
// messages of more than 4 MiB, by default.
const maxText = 1 << 10

// givenKey is the key of a *front.Span in the context of its start.
type givenKey struct{}

// NewIDs implements sdk.IDGenerator for a span without a parent.
func (g givenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	s := ctx.Value(givenKey{}).(*front.Span)
	return traceID(s.TraceID), spanID(s.SpanID)
}

// NewSpanID implements sdk.IDGenerator for a span with a parent.
func (g givenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return spanID(ctx.Value(givenKey{}).(*front.Span).SpanID)
}

func traceID(text string) (id trace.TraceID) {
	_, _ = hex.Decode(id[:], []byte(text)) // the front has checked it
	return id
}

func spanID(text string) (id trace.SpanID) {
	_, _ = hex.Decode(id[:], []byte(text)) // likewise
	return id
}

// start starts a span that has ended already.
func start(t trace.Tracer, s *front.Span) trace.Span {
	ctx := context.WithValue(context.Background(), givenKey{}, s)
	if s.ParentID != "" {
		var state trace.TraceState
		if len(s.State) <= maxText {
			state, _ = trace.ParseTraceState(s.State) // an invalid one is dropped, as a long one is
		}
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: traceID(s.TraceID), SpanID: spanID(s.ParentID), TraceState: state, Remote: true,
		}))
	}
	attributes := make([]attribute.KeyValue, 0, len(s.Attributes))
	for _, a := range s.Attributes {
		if a.Value.String() != "" {
			attributes = append(attributes, attributeOf(a))
		}
	}
	_, span := t.Start(ctx, textOf(s.Name), trace.WithTimestamp(s.Start), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attributes...))
	for _, a := range s.Attributes {
		if s := a.Value.String(); a.Key == statusAttribute && len(s) == 3 && s[0] == '5' {
			span.SetStatus(codes.Error, "")
		}
	}
	return span
}

// statusAttribute is the status of the response.
const statusAttribute = "http.response.status_code"

// attributeOf returns an attribute. By the semantic conventions two of the front's are numbers.
func attributeOf(a slog.Attr) attribute.KeyValue {
	value := a.Value.String()
	if a.Key == statusAttribute || a.Key == "http.response.body.size" {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return attribute.Int64(a.Key, n)
		}
	}
	return attribute.String(textOf(a.Key), textOf(value))
}

// textOf returns a text that every collector accepts: valid UTF-8, without which a batch cannot be
// encoded, and not too long. Clients choose paths and fields, and one text must not lose the spans
// of a whole batch.
func textOf(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
