package engine_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// Budgets, in allocations per request beyond what an empty loop costs. The slab,
// the head's string, and the map; then, for a response field, its map's
// two parts and the value's slice. A browser's head needs a larger map, a slice for
// the values, and strings for the names that the codec does not know.
const (
	budgetSmallGET = 3
	budgetHeader   = 3
	budgetBrowser  = 7
)

// repeater is a connection that sends the same request again and again, when the
// last one has been answered.
type repeater struct {
	net.Conn
	request []byte
	left    int
	once    sync.Once
	done    chan struct{}
}

func (c *repeater) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	c.left--
	return copy(p, c.request), nil
}

func (c *repeater) Write(p []byte) (int, error)      { return len(p), nil }
func (c *repeater) Close() error                     { c.once.Do(func() { close(c.done) }); return nil }
func (c *repeater) SetReadDeadline(time.Time) error  { return nil }
func (c *repeater) SetWriteDeadline(time.Time) error { return nil }
func (c *repeater) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *repeater) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// oneConn is a listener that accepts one connection, and then only waits.
type oneConn struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *oneConn) Close() error   { close(l.closed); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func serveRepeatedly(s server, request string, n int) {
	l := &oneConn{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	c := &repeater{request: []byte(request), left: n, done: make(chan struct{})}
	l.conns <- c
	served := goServe(s, l)
	<-c.done
	s.Close()
	<-served
}

func TestAllocations(t *testing.T) {
	const n = 2000
	body := []byte("Hello World\n")
	plain := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
	withField := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"text/plain"}
		w.Write(body)
	})
	for _, test := range []struct {
		name    string
		request string
		handler http.Handler
		budget  float64
	}{
		{"small GET", get, plain, budgetSmallGET},
		{"small GET, a field in the response", get, withField, budgetSmallGET + budgetHeader},
		{"browser's GET", browserGET, withField, budgetBrowser + budgetHeader},
	} {
		t.Run(test.name, func(t *testing.T) {
			if raceEnabled {
				t.Skip("the race detector allocates")
			}
			run := func(n int) float64 {
				return testing.AllocsPerRun(1, func() { serveRepeatedly(engine.New(&http.Server{Handler: test.handler}), test.request, n) })
			}
			perRequest := (run(2*n) - run(n)) / n
			if perRequest > test.budget+0.1 {
				t.Errorf("%.2f allocations a request, want at most %v", perRequest, test.budget)
			}
			t.Logf("%.2f allocations a request", perRequest)
		})
	}
}

var browserGET = strings.ReplaceAll(`GET /articles/2026/11/weighing?ref=home HTTP/1.1
Host: www.example.org
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8
Accept-Language: en-GB,en;q=0.9,de;q=0.8
Accept-Encoding: gzip, deflate, br, zstd
Referer: https://www.example.org/
Connection: keep-alive
Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; consent=yes
Upgrade-Insecure-Requests: 1
Sec-Fetch-Dest: document
Sec-Fetch-Mode: navigate
Sec-Fetch-Site: same-origin
Sec-Fetch-User: ?1
Sec-CH-UA-Platform: "Linux"
Priority: u=0, i

`, "\n", "\r\n")

// BenchmarkServe compares the cost of everything but the network.
func BenchmarkServe(b *testing.B) {
	handler := http.HandlerFunc(recipeA)
	for name, newServer := range makers {
		for kind, request := range map[string]string{"small": get, "browser": browserGET} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				serveRepeatedly(newServer(&http.Server{Handler: handler}), request, b.N)
			})
		}
	}
}

func TestRepeaterRepeats(t *testing.T) {
	var seen bytes.Buffer
	serveRepeatedly(engine.New(&http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.WriteString(r.Method) })}), get, 3)
	if seen.String() != "GETGETGET" {
		t.Error(seen.String())
	}
}
