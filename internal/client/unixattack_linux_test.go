package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// hostileServer is a server that does what a request's X-Id names, with the cancel functions of
// requests in progress.
type hostileServer struct{ cancels sync.Map }

// serve ends the connection in one of the ways in which servers fail.
func (h *hostileServer) serve(c speaker) {
	for {
		id, ok := c.head()
		if !ok {
			return
		}
		kind, number, _ := strings.Cut(id, " ")
		switch kind {
		case "respond":
			for text, ok := c.part(); ok && text != ""; text, ok = c.part() {
			}
			c.respond("hello")
			continue
		case "early": // before the body has arrived
			c.respond("hello")
		case "reset": // by a close with unread input
		case "half":
			nc := halfCloser(c)
			_ = nc.CloseWrite()
			_, _ = io.Copy(io.Discard, nc)
		case "cut":
			c.begin()
			c.send("hel")
		case "cancel", "deaf":
			cancel, _ := h.cancels.Load(number)
			cancel.(context.CancelFunc)()
			if kind == "cancel" {
				_, _ = io.Copy(io.Discard, c)
			}
		case "upgrade":
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.CopyN(c, c, 10_000)
		}
		return
	}
}

// half is a connection whose directions end separately.
type half interface {
	net.Conn
	CloseWrite() error
}

func halfCloser(c speaker) half {
	switch c := c.(type) {
	case *http1Speaker:
		return c.Conn.(half)
	case *fastcgiSpeaker:
		return c.Conn.(half)
	}
	panic("unknown speaker")
}

// attack sends requests of all kinds, several at a time.
func (h *hostileServer) attack(s *site, requests int) {
	kinds := []string{"respond", "early", "reset", "half", "cut", "cancel", "deaf", "respond"}
	if s.speaks.name == "http1" {
		kinds = append(kinds, "upgrade")
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	for w := range 8 {
		workers.Go(func() {
			for i := w; i < requests; i += 8 {
				h.send(s, kinds[i%len(kinds)], i)
			}
		})
	}
}

func (h *hostileServer) send(s *site, kind string, number int) {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	id := fmt.Sprint(number)
	h.cancels.Store(id, cancel)
	defer h.cancels.Delete(id)
	var body io.Reader
	method := http.MethodGet
	if kind != "upgrade" && number%3 > 0 {
		method, body = http.MethodPost, strings.NewReader(strings.Repeat("x", []int{0, 100, 300 << 10}[number%3]))
	}
	r := s.request(method, body).WithContext(ctx)
	r.Header.Set("X-Id", kind+" "+id)
	if kind == "upgrade" {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "echo")
	}
	resp, err := s.the().RoundTrip(r)
	if err != nil {
		if kind == "respond" {
			s.Errorf("%s: %v", kind, err)
		}
		return
	}
	defer resp.Body.Close()
	if tunnel, ok := resp.Body.(io.ReadWriter); ok {
		go func() { _, _ = tunnel.Write(make([]byte, 10_000)) }()
		if _, err := io.ReadFull(tunnel, make([]byte, 10_000)); err != nil {
			s.Errorf("tunnel: %v", err)
		}
		return
	}
	if b, err := io.ReadAll(resp.Body); kind == "respond" && (err != nil || string(b) != "hello") {
		s.Errorf("%s: %q, %v", kind, b, err)
	}
}

// Servers that fail leave nothing behind, whatever the kind of connection.
func TestFailingServersLeaveNothing(t *testing.T) {
	run := func(requests int) {
		for _, protocol := range protocols() {
			for _, network := range []string{"unix-input", "tcp"} {
				t.Run(fmt.Sprint(protocol.name, "/", network, "/", requests), func(t *testing.T) {
					h, s := new(hostileServer), newSite(t, protocol, network)
					s.serve(func(_ int, c speaker) { h.serve(c) })
					h.attack(s, requests)
				})
			}
		}
	}
	run(100) // what is kept for later connections exists now
	files, goroutines, heap := openDescriptors(t), runtime.NumGoroutine(), liveHeap()
	run(2500)
	testkit.WaitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	if n := openDescriptors(t); n > files {
		t.Errorf("%d descriptors before, %d after", files, n)
	}
	if n := liveHeap(); n > heap+(1<<20) { // 100 bytes a request
		t.Errorf("%d bytes before, %d after", heap, n)
	}
}

// liveHeap returns the number of bytes in use. The first collection empties pools in part.
func liveHeap() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
