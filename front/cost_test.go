package front_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/poison"
)

// sink is a ResponseWriter that costs little.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}

// SetSendTimeout is implemented by tare's servers.
func (s *sink) SetSendTimeout(time.Duration) error { return nil }

func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

func (s *sink) serve(h http.Handler, r *http.Request) {
	clear(s.header)
	h.ServeHTTP(s, r)
}

// costs returns handlers with the allocations of a request, besides those of the content.
func costs(t testing.TB) (all []costCase) {
	app := front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }))
	request := func(host, target string) *http.Request {
		r := httptest.NewRequest("GET", target, nil)
		r.Host = host
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
		return r.WithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, local))
	}
	var many []conf.Host
	for i := range 100 {
		h := conf.Host{Names: []string{fmt.Sprintf("h%d.example", i)},
			Listen: []conf.Listen{{Addr: fmt.Sprintf("127.0.0.1:%d", 80+i%2)}}}
		for j := range 100 {
			h.Locations = append(h.Locations,
				conf.Location{Path: fmt.Sprintf("/%d/", j), Proxy: &conf.Proxy{To: "app", NoHeader: false}})
		}
		many = append(many, h)
	}
	dir := site(t, "x.txt", "index.html")
	bound := newFront(t, conf.Config{Hosts: []conf.Host{{Locations: []conf.Location{{Path: "/",
		Proxy: &conf.Proxy{To: "app"}}}}}}, app)
	received := request("a.example", "/")
	own := received.WithContext(context.WithValue(received.Context(), http.ServerContextKey,
		&http.Server{Handler: bound}))
	file := []conf.Host{{Defaults: &conf.Settings{Files: conf.Files{Root: conf.Text(dir)}}}}
	return []costCase{
		{"bound", bound, received, 1},
		{"bound-own", bound, own, 1}, // the server's own handler: its request is not copied
		{"bound-hosts", newFront(t, conf.Config{Hosts: many}, app), request("h42.example", "/42/x"), 1},
		{"return", newFront(t, conf.Config{Hosts: []conf.Host{{Steps: []conf.Step{conf.Return{Status: 200,
			Text: "x"}}}}}),
			request("a.example", "/"), 4},
		{"file", newFront(t, conf.Config{Hosts: file}), request("a.example", "/x.txt"), 1},
		{"index", newFront(t, conf.Config{Hosts: file}), request("a.example", "/"), 2},
	}
}

// settled is when a file is no longer new, even on a busy machine.
const settled = 5 * time.Second

type costCase struct {
	name string
	h    *front.Handler
	r    *http.Request
	most float64 // allocations
}

// An exchange allocates no more than its content needs, and its memory where that cannot be reused.
func TestExchangeAllocatesLittle(t *testing.T) {
	for _, c := range costs(t) {
		if poison.Enabled {
			c.most++
		}
		w := &sink{make(http.Header)}
		cost := func() float64 { return testing.AllocsPerRun(200, func() { w.serve(c.h, c.r) }) }
		n := cost()
		// a new file is read for each request
		for start := time.Now(); n > c.most && time.Since(start) < settled; n = cost() {
		}
		if n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, n, c.most)
		}
	}
}

func BenchmarkHandler(b *testing.B) {
	for _, c := range costs(b) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			w := &sink{make(http.Header)}
			for b.Loop() {
				w.serve(c.h, c.r)
			}
		})
	}
}
