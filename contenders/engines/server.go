package engines

import (
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/inmemory"
)

const (
	// body is the body of a response.
	body = "Hello, world!"

	// manyClients is the number of connections of the benchmarks that have many.
	manyClients = 10_000

	// drainTimeout limits how long a server may take for its last responses.
	drainTimeout = 10 * time.Second
)

// request has the same fields as the write-up's, and nearly the same length.
func request() []byte {
	return []byte("GET /some/page?query HTTP/1.1\r\nHost: example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101\r\n" +
		"Referer: http://example.org/from?page=1\r\nCookie: session=0123456789; theme=dark; seen=abcdef\r\n\r\n")
}

// Server is the server to be measured.
type Server interface {
	// Serve accepts connections until the listener is closed.
	Serve(net.Listener) error
	// Close releases resources after all connections are closed.
	Close() error
}

// Site is the content that servers serve, as an http.Handler, or as parts for other APIs.
type Site struct {
	Clients int // concurrent connections

	requests int // on each connection
	handled  atomic.Int64
	wrong    atomic.Int64
}

// Body returns the body of responses, which is text/plain.
func (s *Site) Body() []byte { return []byte(body) }

// Last reports whether a server must close the connection after its response.
func (s *Site) Last() bool { return s.requests == 1 }

// Count counts a request, and checks its method.
func (s *Site) Count(isGet bool) {
	s.handled.Add(1)
	if !isGet {
		s.wrong.Add(1)
	}
}

// Handler returns a handler for servers with net/http's API.
func (s *Site) Handler() http.Handler {
	response, last := s.Body(), s.Last()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/plain")
		if last {
			h.Set("Connection", "close")
		}
		_, _ = w.Write(response)
		s.Count(r.Method == http.MethodGet)
	})
}

// PerConn returns a site with as many clients as processors, and the given number of requests on
// each connection.
func PerConn(requests int) *Site { return &Site{requests: requests, Clients: runtime.NumCPU()} }

// PerConn10KClients is like PerConn with ten thousand clients.
func PerConn10KClients(requests int) *Site { return &Site{requests: requests, Clients: manyClients} }

// ServerGet sends b.N requests to a server and checks every byte of every response.
func ServerGet(b *testing.B, site *Site, start func(*Site) Server) {
	want, err := firstResponse(start(site), site.requests)
	if err != nil {
		b.Fatal(err)
	}
	site.handled.Store(0)
	var clients []*client
	l := inmemory.Listen(inmemory.Load{
		Request: request(), Requests: site.requests, Clients: site.Clients, Total: b.N,
		Responses: func() io.Writer {
			clients = append(clients, &client{want: want})
			return clients[len(clients)-1]
		},
	})
	server := start(site)
	b.ReportAllocs()
	b.ResetTimer()
	err = run(server, l, b.N)
	b.StopTimer()
	if err != nil {
		b.Fatal(err)
	}
	responses := 0
	for _, c := range clients {
		if c.err != nil {
			b.Fatal(c.err)
		}
		responses += c.responses
	}
	if n := int(site.handled.Load()); n != b.N || responses != b.N || site.wrong.Load() > 0 {
		b.Fatalf("of %d requests, %d were handled and %d had a response; %d were not handled as sent", b.N, n, responses,
			site.wrong.Load())
	}
	if err := server.Close(); err != nil {
		b.Fatal(err)
	}
}

// run serves all requests of a load.
func run(server Server, l *inmemory.Listener, total int) error {
	if err := server.Serve(l); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if served, ok := l.Drain(drainTimeout); !ok || served != uint64(total) {
		return errors.New("the server did not read all requests and close all connections")
	}
	return nil
}
