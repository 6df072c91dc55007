package conf

import (
	"crypto/x509"
	"time"
)

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

// SpanExporter configures how spans are sent to a collector of OpenTelemetry, by OTLP over gRPC.
type SpanExporter struct {
	// Endpoint is HOST:PORT.
	Endpoint string
	// TLS encrypts the connection. Trusted are the authorities of the collector's certificate; nil
	// selects the system's.
	TLS     bool
	Trusted []*x509.Certificate
	// Header are the fields of the requests. Their values are sent as they are.
	Header []Field
	// Interval is the longest time between two requests, BatchSize the number of spans of a
	// request, and BatchCount the number of requests for which spans wait: more are dropped. 0
	// selects 5 s, 512 and 4.
	Interval              time.Duration
	BatchSize, BatchCount int
	// Service is the resource's service.name; "" is unknown_service:nginx. Attributes are others of
	// the resource. Their values are taken as they are.
	Service    string
	Attributes []Field
}
