// Command inmemory measures a server with clients in memory, without sockets, and prints the
// nanoseconds per request. The workloads are those of fasthttp's own benchmarks: GET or POST, a
// number of requests on each connection, a number of concurrent connections.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/inmemory"
)

const (
	body = "Hello, world!"

	// drainTimeout limits how long a server may take for its last responses.
	drainTimeout = 10 * time.Second
	// warmupPart is the part of the time that the warm-up takes: a quarter.
	warmupPart = 4
)

// workload is the requests of all clients.
type workload struct {
	method            string
	requests, clients int
	response          []byte

	counting bool
	handled  atomic.Uint64
	wrong    atomic.Uint64 // requests that the handler did not receive as sent
}

func main() {
	log.SetFlags(0)
	w := workload{response: []byte(body)}
	name := flag.String("server", "", "`name`: tare, nethttp or fasthttp")
	flag.StringVar(&w.method, "method", "GET", "GET or POST")
	flag.IntVar(&w.requests, "requests", 1, "`number` of requests for each connection")
	flag.IntVar(&w.clients, "clients", 1, "`number` of connections at a time")
	d := flag.Duration("for", time.Second, "`time` to measure")
	flag.Parse()
	serve, err := w.server(*name)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.warm(serve, *d/warmupPart); err != nil {
		log.Fatal(err)
	}
	elapsed, served, err := w.run(serve, *d)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f ns/request\n", float64(elapsed.Nanoseconds())/float64(served))
}

func (w *workload) server(name string) (func(net.Listener) error, error) {
	switch name {
	case "tare":
		return tare.Wrap(&http.Server{Handler: w}).Serve, nil
	case "nethttp":
		return (&http.Server{Handler: w}).Serve, nil
	case "fasthttp":
		const perClient = 16 // connections that end while the next is accepted
		return (&fasthttp.Server{Handler: w.serveFast, Concurrency: perClient * w.clients}).Serve, nil
	}
	return nil, fmt.Errorf("-server %q: want tare, nethttp or fasthttp", name)
}

// warm loads a server for a time, and checks that its handler receives every request. Later runs do
// not count requests, because counting costs more than some of the measured work.
func (w *workload) warm(serve func(net.Listener) error, d time.Duration) error {
	w.counting = true
	_, served, err := w.run(serve, d)
	w.counting = false
	if err == nil && w.handled.Load() != served {
		err = fmt.Errorf("%d requests were sent and %d handled", served, w.handled.Load())
	}
	return err
}

// run loads a server for a time. It returns the time and the number of requests.
func (w *workload) run(serve func(net.Listener) error, d time.Duration) (elapsed time.Duration, served uint64,
	err error) {
	start := time.Now()
	l := inmemory.Listen(inmemory.Load{Request: w.request(), Requests: w.requests, Clients: w.clients, For: d})
	if err := serve(l); err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	served, ok := l.Drain(drainTimeout)
	elapsed = time.Since(start)
	switch {
	case !ok:
		err = errors.New("the server did not close all connections")
	case served == 0:
		err = errors.New("the server received no request")
	case w.wrong.Load() > 0:
		err = fmt.Errorf("the handler did not receive %d requests as sent", w.wrong.Load())
	}
	return elapsed, served, err
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
	if w.method == "POST" {
		fmt.Fprintf(&b, "Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	} else {
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// count counts a request, and whether the handler received it as sent.
func (w *workload) count(asSent bool) {
	if w.counting {
		w.handled.Add(1)
	}
	if !asSent {
		w.wrong.Add(1)
	}
}

func (w *workload) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.count(r.Method == w.method)
	response := w.response
	if w.method == "POST" {
		var err error
		if response, err = io.ReadAll(r.Body); err != nil || string(response) != body {
			w.count(false)
		}
	}
	rw.Header().Set("Content-Type", "text/plain")
	_, _ = rw.Write(response)
}

func (w *workload) serveFast(ctx *fasthttp.RequestCtx) {
	w.count(string(ctx.Method()) == w.method)
	response := w.response
	if w.method == "POST" {
		if response = ctx.PostBody(); string(response) != body {
			w.count(false)
		}
	}
	ctx.SetContentType("text/plain")
	ctx.SetBody(response)
}
