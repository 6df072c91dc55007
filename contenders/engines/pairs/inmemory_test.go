package pairs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/inmemory"
)

const (
	greeting = "Hello, world!"

	// drainTimeout limits how long a server may take for its last responses.
	drainTimeout = 10 * time.Second
	// manyClients is the number of connections of the benchmarks that have many.
	manyClients = 10_000
)

// workload is requests that clients in memory send without reading the responses.
type workload struct {
	method   string
	requests int // on each connection
	clients  int
	wrong    atomic.Uint64 // requests that the handler did not receive as sent
}

// request returns a request like an old browser's. The only request of a connection has
// "Connection: close".
func (w *workload) request() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s /some/page?with=query HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101\r\n"+
		"Referer: http://www.example.org/elsewhere?page=1\r\nCookie: session=0123456789\r\n", w.method)
	if w.requests == 1 {
		b.WriteString("Connection: close\r\n")
	}
	if w.method == http.MethodPost {
		fmt.Fprintf(&b, "Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(greeting), greeting)
	} else {
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// check counts a request that the handler did not receive as sent.
func (w *workload) check(asSent bool) {
	if !asSent {
		w.wrong.Add(1)
	}
}

func (w *workload) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.check(r.Method == w.method)
	response := []byte(greeting)
	if w.method == http.MethodPost {
		var err error
		response, err = io.ReadAll(r.Body)
		w.check(err == nil && string(response) == greeting)
	}
	rw.Header().Set("Content-Type", "text/plain")
	_, _ = rw.Write(response)
}

func (w *workload) serveFast(ctx *fasthttp.RequestCtx) {
	w.check(string(ctx.Method()) == w.method)
	response := []byte(greeting)
	if w.method == http.MethodPost {
		response = ctx.PostBody()
		w.check(string(response) == greeting)
	}
	ctx.SetContentType("text/plain")
	ctx.SetBody(response)
}

// serve measures the servers with clients in memory, without sockets. The workloads are those of
// fasthttp's own benchmarks.
func serve(b *testing.B, method string, requests, clients int) {
	w := &workload{method: method, requests: requests, clients: clients}
	b.Run("tare", func(b *testing.B) { w.run(b, tare.Wrap(&http.Server{Handler: w}).Serve) })
	b.Run("nethttp", func(b *testing.B) { w.run(b, (&http.Server{Handler: w}).Serve) })
	b.Run("fasthttp", func(b *testing.B) {
		const perClient = 16 // connections that end while the next is accepted
		w.run(b, (&fasthttp.Server{Handler: w.serveFast, Concurrency: perClient * clients}).Serve)
	})
}

// run sends b.N requests.
func (w *workload) run(b *testing.B, serve func(net.Listener) error) {
	l := inmemory.Listen(inmemory.Load{Request: w.request(), Requests: w.requests, Clients: w.clients, Total: b.N})
	b.ResetTimer()
	if err := serve(l); err != nil && !errors.Is(err, io.EOF) {
		b.Fatal(err)
	}
	served, ok := l.Drain(drainTimeout)
	b.StopTimer()
	if !ok || served != uint64(b.N) || w.wrong.Load() > 0 {
		b.Fatalf("served %d of %d requests, %d of them not as sent; all connections closed: %v", served, b.N,
			w.wrong.Load(), ok)
	}
}

func BenchmarkServeGet1(b *testing.B)    { serve(b, http.MethodGet, 1, runtime.NumCPU()) }
func BenchmarkServeGet2(b *testing.B)    { serve(b, http.MethodGet, 2, runtime.NumCPU()) }
func BenchmarkServeGet10(b *testing.B)   { serve(b, http.MethodGet, 10, runtime.NumCPU()) }
func BenchmarkServeGet10K(b *testing.B)  { serve(b, http.MethodGet, 10_000, runtime.NumCPU()) }
func BenchmarkServePost1(b *testing.B)   { serve(b, http.MethodPost, 1, runtime.NumCPU()) }
func BenchmarkServePost2(b *testing.B)   { serve(b, http.MethodPost, 2, runtime.NumCPU()) }
func BenchmarkServePost10(b *testing.B)  { serve(b, http.MethodPost, 10, runtime.NumCPU()) }
func BenchmarkServePost10K(b *testing.B) { serve(b, http.MethodPost, 10_000, runtime.NumCPU()) }

func BenchmarkServeGet1Of10KClients(b *testing.B)   { serve(b, http.MethodGet, 1, manyClients) }
func BenchmarkServeGet2Of10KClients(b *testing.B)   { serve(b, http.MethodGet, 2, manyClients) }
func BenchmarkServeGet10Of10KClients(b *testing.B)  { serve(b, http.MethodGet, 10, manyClients) }
func BenchmarkServeGet100Of10KClients(b *testing.B) { serve(b, http.MethodGet, 100, manyClients) }
