package pairs_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/contenders/engines"
)

// idleConns is the number of idle connections, if there are descriptors for both ends of each.
const idleConns = 10_000

// holding is a server that responds once it has received a number of requests, each on its own
// connection. From then on it keeps only the descriptors of the connections.
type holding struct {
	listener net.Listener
	all      chan struct{} // closed once all requests have arrived

	mu      sync.Mutex
	missing int // requests that have not arrived
	conns   []net.Conn
}

func hold(b *testing.B, n int) *holding {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	h := &holding{listener: l, all: make(chan struct{}), missing: n}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h.respond(c)
		}
	}()
	return h
}

func (h *holding) respond(c net.Conn) {
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		c.Close()
		return
	}
	h.mu.Lock()
	h.conns = append(h.conns, c)
	if h.missing--; h.missing == 0 {
		close(h.all)
	}
	h.mu.Unlock()
	<-h.all
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi")
}

// giveUp responds to the received requests, because no other will arrive.
func (h *holding) giveUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.missing > 0 {
		h.missing = 0
		close(h.all)
	}
}

func (h *holding) close() {
	h.listener.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.Close()
	}
}

// used returns the memory of live objects and stacks.
func used() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// BenchmarkIdle measures the cost of an idle connection for its client: bytes beyond those of a
// connection without a client, and goroutines.
func BenchmarkIdle(b *testing.B) {
	n := idleConns
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && limit.Cur < uint64(2*n+100) {
		n = int(limit.Cur-100) / 2
	}
	idle(b, n, bare) // the runtime keeps the memory of that many goroutines
	least := idle(b, n, bare)
	keeping().pairs(b, func(b *testing.B, open newClient) {
		var cost usage
		for range b.N {
			cost = idle(b, n, func(address string) (func() error, func()) {
				c := open(engines.ClientOptions{Conns: n})
				return func() error { _, _, err := c.Get("http://" + address)(); return err }, c.Close
			})
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(n), "conns")
		b.ReportMetric((cost.bytes-least.bytes)/float64(n), "B/conn")
		b.ReportMetric((cost.goroutines-least.goroutines)/float64(n), "goroutines/conn")
	})
}

// maxAttempts is the number of attempts of a request.
const maxAttempts = 10

// bare sends requests on connections without a client.
func bare(address string) (exchange func() error, end func()) {
	var mu sync.Mutex
	var conns []net.Conn
	exchange = func() error {
		c, err := net.Dial("tcp4", address)
		if err != nil {
			return err
		}
		mu.Lock()
		conns = append(conns, c)
		mu.Unlock()
		if _, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err == nil {
			_, err = c.Read(make([]byte, 4096))
		}
		return err
	}
	return exchange, func() {
		for _, c := range conns {
			c.Close()
		}
	}
}

type usage struct{ bytes, goroutines float64 }

// idle measures the cost of n connections that carried one request each.
func idle(b *testing.B, n int, prepare func(address string) (exchange func() error, end func())) usage {
	h := hold(b, n)
	defer h.close()
	exchange, end := prepare(h.listener.Addr().String())
	defer end()
	before, goroutines := used(), runtime.NumGoroutine()
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() {
			var err error
			for range maxAttempts { // connecting may time out while so many clients connect
				if err = exchange(); err == nil {
					return
				}
			}
			b.Error(err)
			h.giveUp()
		})
	}
	clients.Wait()
	time.Sleep(200 * time.Millisecond) // clients finish their work on connections that became idle
	return usage{float64(used()) - float64(before), float64(runtime.NumGoroutine() - goroutines)}
}
