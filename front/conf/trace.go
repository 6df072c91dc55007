package conf

// Trace configures trace contexts (W3C Trace Context, traceparent and tracestate), as nginx-otel
// does.
type Trace struct {
	// Extract makes the request a part of the client's trace. Otherwise it begins a trace.
	Extract bool
	// Inject sends the context to upstreams and bound handlers, in place of the client's.
	Inject bool
	// Sampled defines whether a span is exported: it is "on" or "1". "" exports none, and the
	// context has the client's flag.
	Sampled Text
	// Name is the span's name; "" is the location's path.
	Name Text
	// Attributes are the span's, besides the usual ones.
	Attributes []Field
}
