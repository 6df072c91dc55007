package otel_test

import (
	"strings"
	"testing"
)

// Clients with invalid UTF-8, and with long paths and fields, do not lose the spans of others that
// are sent in the same request.
func TestHostileSpansDoNotLoseOthers(t *testing.T) {
	t.Parallel()
	r := startReceiver(t, false)
	s := serve(t, "otel_exporter { endpoint "+r.addr+"; interval 1h; batch_size 600; }",
		`otel_trace on; otel_trace_context extract; otel_span_name $uri; otel_span_attr mine $http_x_mine; return 200;`)
	s.get("/good")
	s.get("/%ff\xfe", "User-Agent", "a\xffb", "X-Mine", "\xc3")
	const n = 500
	long, state := strings.Repeat("é", 2000), "a="+strings.Repeat("x", 250)
	for range n {
		s.get("/"+strings.Repeat("a", 6000), "User-Agent", long, "X-Mine", long,
			"Traceparent", "00-"+clientTrace+"-"+clientSpan+"-01", "Tracestate", state+strings.Repeat(","+state, 10))
	}
	s.run.Drain()
	s.end()
	names := r.names()
	if len(names) != n+2 || names[0] != "/good" || names[1] != "/\uFFFD" || len(names[2]) > 1<<10 {
		t.Fatalf("%d spans, want %d\n%s", len(names), n+2, s.log.String())
	}
}
