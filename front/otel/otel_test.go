package otel_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/otel"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
)

// A collector receives the span of a request: with the client's trace, the name, the attributes of
// the request and of the configuration, and the resource.
func TestSpansReachTheCollector(t *testing.T) {
	t.Parallel()
	r := startReceiver(t, false)
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, r.Header.Get("Traceparent"))
	})
	s := serve(t, fmt.Sprintf(`otel_exporter { endpoint %s; interval 1h; header X-Token secret; }
		otel_service_name shop; otel_resource_attr deployment.environment.name test;`, r.addr),
		`otel_trace $arg_sampled; otel_trace_context propagate; otel_span_name "GET $uri"; otel_span_attr mine $arg_a;
		location / { proxy_pass http://app; }`, server.Bind("app", app))
	s.get("/not-sampled")
	sent := s.get("/a?sampled=on&a=b", "Traceparent", "00-"+clientTrace+"-"+clientSpan+"-01", "Tracestate", "x=y")
	s.end() // which sends what is queued
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) != 1 {
		t.Fatalf("%d spans: %v\n%s", len(r.spans), r.spans, s.log.String())
	}
	span := r.spans[0]
	context := fmt.Sprintf("00-%x-%x-01", span.GetTraceId(), span.GetSpanId())
	if sent != context || hex.EncodeToString(span.GetTraceId()) != clientTrace ||
		hex.EncodeToString(span.GetParentSpanId()) != clientSpan || span.GetTraceState() != "x=y" {
		t.Errorf("the handler received %s; the span is %v", sent, span)
	}
	if span.GetName() != "GET /a" || span.GetKind() != trace.Span_SPAN_KIND_SERVER ||
		span.GetStatus().GetCode() != trace.Status_STATUS_CODE_ERROR ||
		span.GetEndTimeUnixNano() <= span.GetStartTimeUnixNano() ||
		time.Since(time.Unix(0, int64(span.GetStartTimeUnixNano()))) > patience {
		t.Errorf("%v", span)
	}
	attributes := make(map[string]string)
	for _, a := range span.GetAttributes() {
		attributes[a.GetKey()] = a.GetValue().String()
	}
	for name, want := range map[string]string{"mine": `string_value:"b"`, "http.request.method": `string_value:"GET"`,
		"http.response.status_code": "int_value:503", "url.path": `string_value:"/a"`} {
		testkit.Equal(t, strings.ReplaceAll(attributes[name], " ", ""), want, name)
	}
	if r.resource["service.name"] != "shop" || r.resource["deployment.environment.name"] != "test" ||
		!slices.Equal(r.header["x-token"], []string{"secret"}) ||
		!strings.HasPrefix(r.scope, "github.com/tarehq/tare") {
		t.Errorf("%v, %v, %s", r.resource, r.header, r.scope)
	}
}

// A batch is sent when it is full, and the rest after the interval.
func TestBatchesAreSentWhenFullOrLate(t *testing.T) {
	t.Parallel()
	r := startReceiver(t, false)
	s := serve(t, "otel_exporter { endpoint http://"+r.addr+"; interval 50ms; batch_size 3; }",
		"otel_trace on; return 200;")
	for range 10 {
		s.get("/")
	}
	testkit.WaitFor(s, "10 spans", func() bool { return len(r.names()) == 10 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Max(r.batches) > 3 || r.resource["service.name"] != "unknown_service:nginx" {
		t.Errorf("batches of %d spans, resource %v", r.batches, r.resource)
	}
}

// Requests do not wait for a collector that is slow or absent. Spans are lost, and reported.
func TestRequestsDoNotWaitForTheCollector(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]string{"absent": "127.0.0.1:1", "slow": startReceiver(t, true).addr} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "otel_exporter { endpoint "+addr+"; interval 1ms; batch_size 2; batch_count 2; }",
				"otel_trace on; return 200 ok;")
			for range 50 {
				testkit.Equal(t, s.get("/"), "ok")
			}
			s.end() // in spite of the collector
			s.eventuallyLogs("otel_exporter: spans were lost: 50 spans to " + addr)
		})
	}
}

// What is queued when the collector recovers is sent.
func TestCollectorMayBeLate(t *testing.T) {
	t.Parallel()
	r := startReceiver(t, true)
	s := serve(t, "otel_exporter { endpoint "+r.addr+"; interval 1ms; batch_size 1; }", "otel_trace on; return 200;")
	s.get("/")
	s.get("/")
	close(r.accept)
	testkit.WaitFor(s, "both spans", func() bool { return len(r.names()) == 2 })
}

// A reload changes the collector, and what is queued for the old one is sent there. A failed reload
// changes nothing.
func TestReloadChangesTheCollector(t *testing.T) {
	t.Parallel()
	first, second := startReceiver(t, false), startReceiver(t, false)
	const block = "otel_trace on; otel_span_name $uri; " +
		"location / { return 200; } location = /ping { otel_trace off; return 200; }"
	s := serve(t, "otel_exporter { endpoint "+first.addr+"; interval 1h; }", block)
	s.get("/1")
	s.configure("otel_exporter { endpoint nowhere; }", block)
	testkit.Error(t, s.run.Reload(), "", "an invalid endpoint is accepted")
	s.get("/2")
	s.configure("otel_exporter { endpoint "+second.addr+"; interval 1h; }", block)
	s.get("/ping") // so the request before has ended
	testkit.Must(t, s.run.Reload())
	testkit.WaitFor(s, "the first spans", func() bool { return len(first.names()) == 2 })
	s.get("/3")
	s.configure("", block)
	s.get("/ping") // so the request before has ended
	testkit.Must(t, s.run.Reload())
	testkit.WaitFor(s, "the last span", func() bool { return len(second.names()) == 1 })
	s.get("/4")
	s.end()
	a, b := first.names(), second.names()
	testkit.Equal(t, a, []string{"/1", "/2"}, "the first collector")
	testkit.Equal(t, b, []string{"/3"}, "the second collector")
}

// https encrypts, and the certificate must be trusted.
func TestCollectorMayUseTLS(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	pair := testkit.Value(tls.X509KeyPair(cert, key))(t)
	r := startReceiver(t, false, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	name := filepath.Join(t.TempDir(), "ca.pem")
	testkit.Must(t, os.WriteFile(name, cert, 0o600))
	trusting := serve(t, "otel_exporter { endpoint https://"+r.addr+"; interval 1ms; trusted_certificate "+name+"; }",
		"otel_trace on; otel_span_name trusted; return 200;")
	other := serve(t, "otel_exporter { endpoint https://"+r.addr+"; interval 1h; }",
		"otel_trace on; otel_span_name other; return 200;")
	trusting.get("/")
	other.get("/")
	testkit.WaitFor(trusting, "a span", func() bool { return len(r.names()) == 1 })
	other.end()
	testkit.Equal(t, r.names(), []string{"trusted"}, "received")
}

// Mistakes are errors of the configuration, and a program without tracing rejects otel_exporter.
func TestExporterIsChecked(t *testing.T) {
	s := newSite(t)
	for block, want := range map[string]string{
		"":                                        "missing endpoint",
		"endpoint localhost;":                     "invalid endpoint",
		"endpoint https://:1;":                    "invalid endpoint",
		"endpoint a:1; batch_size 0;":             "0 is out of range (at least 1)",
		"endpoint a:1; batch_count x;":            "batch_count",
		"endpoint a:1; interval x;":               "interval",
		"endpoint a:1; trusted_certificate none;": "trusted_certificate",
		"endpoint a:1; other;":                    "unknown directive",
	} {
		s.configure("otel_exporter { "+block+" }", "return 200;")
		_, err := nginxconf.Parse(filepath.Join(s.dir, "nginx.conf"), nginxconf.Options{Tracing: true})
		testkit.Error(t, err, want, block)
	}
	s.configure("otel_exporter { endpoint a:1; }", "return 200;")
	_, err := nginxconf.Parse(filepath.Join(s.dir, "nginx.conf"), nginxconf.Options{})
	testkit.Error(t, err, "built without OpenTelemetry (build it with -tags otel)", "without tracing")
}

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
	s.end()
	names := r.names()
	if len(names) != n+2 || names[0] != "/good" || names[1] != "/\uFFFD" || len(names[2]) > 1<<10 {
		t.Fatalf("%d spans, want %d\n%s", len(names), n+2, s.log.String())
	}
}

// patience limits how long a test waits for an expected event.
const patience = time.Minute

// receiver is a collector. Each request waits until it receives from accept, or accept is closed.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	addr   string
	accept chan struct{}

	mu       sync.Mutex
	batches  []int // the number of spans of each request
	spans    []*trace.Span
	resource map[string]string
	scope    string
	header   metadata.MD
}

// Export implements collector.TraceServiceServer.
func (r *receiver) Export(ctx context.Context, q *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error) {
	select {
	case <-r.accept:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.header, _ = metadata.FromIncomingContext(ctx)
	n := 0
	for _, resource := range q.GetResourceSpans() {
		r.resource = make(map[string]string)
		for _, a := range resource.GetResource().GetAttributes() {
			r.resource[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, s := range resource.GetScopeSpans() {
			r.scope = s.GetScope().GetName()
			r.spans = append(r.spans, s.GetSpans()...)
			n += len(s.GetSpans())
		}
	}
	r.batches = append(r.batches, n)
	return &collector.ExportTraceServiceResponse{}, nil
}

// names returns the names of the received spans.
func (r *receiver) names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		names = append(names, s.GetName())
	}
	return names
}

// startReceiver starts a collector. It accepts at once unless isSlow.
func startReceiver(t *testing.T, isSlow bool, options ...grpc.ServerOption) *receiver {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &receiver{addr: l.Addr().String(), accept: make(chan struct{})}
	if !isSlow {
		close(r.accept)
	}
	s := grpc.NewServer(options...)
	collector.RegisterTraceServiceServer(s, r)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // it ends by Stop
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return r
}

// site is a running server.
type site struct {
	*testing.T
	dir   string
	run   *server.Server
	http  *http.Client
	ended <-chan error
	log   testkit.Log
}

// serve starts a server with directives of http and of its server block.
func serve(t *testing.T, http, block string, bound ...server.Binding) *site {
	t.Helper()
	s := newSite(t)
	s.configure(http, block)
	ready := make(chan struct{}, 10)
	s.run = server.New(server.File{Path: filepath.Join(s.dir, "nginx.conf")}, server.Options{
		Stdout: io.Discard, Stderr: &s.log, NoSignals: true, Tracing: otel.New(),
		Ready: func() { ready <- struct{}{} }}, bound...)
	s.ended = testkit.Run(t, s.run.Run, ready)
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

func newSite(t *testing.T) *site {
	dir := testkit.ShortDir(t)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "socket"))
	}
	return &site{T: t, dir: dir,
		http: &http.Client{Transport: &http.Transport{DialContext: dial, MaxConnsPerHost: 1}}}
}

func (s *site) configure(http, block string) {
	s.Helper()
	text := fmt.Sprintf("events {}\nhttp { access_log off; %s server { listen unix:%s; %s } }\n", http,
		filepath.Join(s.dir, "socket"), block)
	testkit.Must(s.T, os.WriteFile(filepath.Join(s.dir, "nginx.conf"), []byte(text), 0o600))
}

// end ends the server, after its requests.
func (s *site) end() {
	s.Helper()
	s.run.Drain()
	testkit.Equal(s, <-s.ended, nil, s.log.String())
}

// get sends a request, when the one before has ended: there is one connection. fields are names and
// values.
func (s *site) get(path string, fields ...string) string {
	s.Helper()
	r := testkit.Value(http.NewRequest(http.MethodGet, "http://front.test"+path, nil))(s.T)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	resp := testkit.Value(s.http.Do(r))(s.T)
	defer resp.Body.Close()
	return string(testkit.Value(io.ReadAll(resp.Body))(s.T))
}

func (s *site) eventuallyLogs(text string) {
	s.Helper()
	testkit.WaitFor(s, "a line of the log: "+text, func() bool { return strings.Contains(s.log.String(), text) })
}
