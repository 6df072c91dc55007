package otel_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tarehq/tare/front/otel"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

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

// end waits for the end of the server, which has been requested.
func (s *site) end() {
	s.Helper()
	if err := <-s.ended; err != nil {
		s.Errorf("%v\n%s", err, s.log.String())
	}
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

// eventually waits for a condition.
func (s *site) eventually(what string, is func() bool) {
	s.Helper()
	for late := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			s.Fatalf("not yet: %s\n%s", what, s.log.String())
		}
	}
}

func (s *site) eventuallyLogs(text string) {
	s.Helper()
	s.eventually("the log has "+text, func() bool { return strings.Contains(s.log.String(), text) })
}
