package client_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// If a server closes kept connections at any time, no repeatable request fails, and no other
// request is carried out twice.
func TestTransportSurvivesServerThatCloses(t *testing.T) {
	duration := 300 * time.Millisecond
	if testkit.Slow() {
		duration = time.Minute
	}
	overAll(t, func(p *peer) {
		p.tr.MaxIdleConnsPerHost = workersOfCloser
		s := &closer{done: make(map[string]int)}
		p.Cleanup(func() { s.check(p) }) // after the server has ended
		p.runScript(s.serve)
		ctx, cancel := context.WithTimeout(t.Context(), duration)
		defer cancel()
		var all sync.WaitGroup
		for w := range workersOfCloser {
			all.Go(func() { s.sendRequests(ctx, p, w) })
		}
		all.Wait()
	})
}

const workersOfCloser = 16

// closer is a server that closes connections, with the clients that send requests to it.
type closer struct {
	mu   sync.Mutex
	done map[string]int // how often each request was carried out that must not be repeated

	conns, responded, failed atomic.Int64
}

// check reports the outcome.
func (s *closer) check(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.done {
		if n > 1 {
			p.Errorf("%s was done %d times", id, n)
		}
	}
	p.Logf("%d connections, %d responses, %d failed that must not be repeated", s.conns.Load(),
		s.responded.Load(), s.failed.Load())
}

// serve responds to the first request of a connection. Then it closes the connection: while it is
// idle, when a request arrives, when it was read, when it was carried out, or after the response.
func (s *closer) serve(n int, c *scripted) {
	s.conns.Add(1)
	random := rand.New(rand.NewPCG(uint64(n), 1))
	chance := func(in int) bool { return random.IntN(in) == 0 }
	defer func() {
		if chance(2) {
			reset(c.Conn)
		}
	}()
	for first := true; ; first = false {
		if !first && chance(4) {
			_ = c.SetReadDeadline(time.Now().Add(time.Duration(random.IntN(300)) * time.Microsecond))
			if _, err := c.r.Peek(1); err != nil || chance(3) {
				return
			}
			_ = c.SetReadDeadline(time.Time{})
		}
		r := c.request()
		if r == nil || !first && chance(8) {
			return
		}
		if r.Method == http.MethodPost {
			s.mu.Lock()
			s.done[r.URL.Path]++
			s.mu.Unlock()
		}
		if !first && chance(8) {
			return
		}
		if c.writeText(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: %d\n\n%s", len(r.URL.Path),
			r.URL.Path)); chance(8) {
			return
		}
	}
}

// reset makes closing a connection send a reset.
func reset(c net.Conn) {
	if above, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = above.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// sendRequests sends requests until the context ends or enough of them have failed as they may.
// Connections become idle, some for so long that they are watched.
func (s *closer) sendRequests(ctx context.Context, p *peer, worker int) {
	random := rand.New(rand.NewPCG(uint64(worker), 2))
	for i := 0; ctx.Err() == nil || s.failed.Load() == 0 && i < 10_000; i++ {
		id := fmt.Sprintf("/%d/%d", worker, i)
		var r *http.Request
		switch i % 4 {
		case 0:
			r = mustRequest(http.MethodGet, p.url+id, nil)
		case 1:
			r = mustRequest(http.MethodPut, p.url+id, strings.NewReader("body"))
			r.Header.Set("Idempotency-Key", id)
		case 2:
			r = mustRequest(http.MethodPost, p.url+id, strings.NewReader("body"))
		case 3:
			r = mustRequest(http.MethodPost, p.url+id, io.MultiReader(strings.NewReader("body")))
		}
		_, text, err := p.send(r)
		switch {
		case err == nil && text == id:
			s.responded.Add(1)
		case err == nil || r.Method != http.MethodPost:
			p.Errorf("%s %s: %q, %v", r.Method, id, text, err)
		default:
			s.failed.Add(1)
		}
		switch random.IntN(16) {
		case 0:
			time.Sleep(time.Duration(random.IntN(400)) * time.Microsecond)
		case 1:
			time.Sleep(6*time.Millisecond + time.Duration(random.IntN(400))*time.Microsecond)
		}
	}
}
