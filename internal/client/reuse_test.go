package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// An idle connection is dropped at once if its server closes it, or if an unexpected byte arrives,
// before it is watched and later. So not even a request that must not be sent twice fails.
func TestClosedIdleConnectionsAreDropped(t *testing.T) {
	testkit.Long(t, "it waits until connections are watched")
	for name, end := range map[string]func(speaker){
		"closed":     func(c speaker) { c.Close() },
		"stray byte": func(c speaker) { _, _ = c.Write([]byte("x")) },
	} {
		for _, isWatched := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/", isWatched), func(t *testing.T) {
				overAll(t, func(s *site) {
					ended := make(chan bool)
					s.serve(func(n int, c speaker) {
						if n == 0 {
							receive(c)
							c.respond("hello")
							<-ended
							end(c)
							ended <- true
						}
						serveAll(c, "hello")
					})
					s.must(s.request("GET", nil), "hello")
					if isWatched {
						testkit.WaitFor(s.T, "the watch", func() bool { return s.the().Count().Watched == 1 })
					}
					ended <- true
					<-ended
					testkit.WaitFor(s.T, "the connection to be evicted", func() bool { return s.the().Count().Idle == 0 })
					s.must(s.request("POST", hidden("x")), "hello")
				})
			})
		}
	}
}

// A request on a kept connection that ends without a response is retried once, if that is safe.
func TestRequestIsRetriedOnlyIfSafe(t *testing.T) {
	long := strings.Repeat("long", 25_000)
	withKey := func(r *http.Request) { r.Header.Set("Idempotency-Key", "1") }
	for _, test := range []struct {
		name, method string
		body         string
		isHidden     bool // the body cannot be read again
		change       func(r *http.Request)
		isRetried    bool
		canRetry     bool // as the error reports, if the request is not retried
		sendsByte    bool // the server sends the first byte of a response
	}{
		{name: "GET", method: "GET", isRetried: true},
		{name: "GET that got a byte", method: "GET", sendsByte: true, canRetry: true},
		{name: "no method", method: "", isRetried: true},
		{name: "HEAD", method: "HEAD", isRetried: true},
		{name: "POST", method: "POST"},
		{name: "PATCH with a body", method: "PATCH", body: "x"},
		{name: "POST with a key", method: "POST", change: withKey, isRetried: true},
		{name: "POST with a key and a body", method: "POST", body: "x", change: withKey, isRetried: true},
		{name: "GET with a long body", method: "GET", body: long, isRetried: true},
		{name: "GET with a body that cannot be read again", method: "GET", body: long, isHidden: true, canRetry: true},
		{name: "GET whose GetBody fails", method: "GET", body: long, isHidden: true, canRetry: true,
			change: func(r *http.Request) {
				r.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			overAll(t, func(s *site) {
				var broken atomic.Int32
				both := make(chan bool)
				s.serve(func(n int, c speaker) {
					receive(c)
					if n < 2 {
						select {
						case both <- true:
						case <-both:
						}
					}
					c.respond("")
					if _, _, ok := receive(c); ok { // and closes the connection
						if broken.Add(1); test.sendsByte {
							_, _ = c.Write([]byte(s.speaks.begins))
						}
					}
				})
				s.config.Settings.MaxIdleConnsPerHost = 2
				var first sync.WaitGroup
				for range 2 { // the retry has a new connection, and not the second one
					first.Go(func() {
						_, err := s.do(s.request("GET", nil))
						testkit.Check(s.T, err)
					})
				}
				first.Wait()
				var body io.Reader = strings.NewReader(test.body)
				if test.isHidden {
					body = hidden(test.body)
				}
				r := s.request(test.method, body)
				if r.Method = test.method; test.change != nil {
					test.change(r)
				}
				_, err := s.do(r)
				if (err == nil) != test.isRetried || broken.Load() != 1 {
					s.Errorf("%v; the request was received %d times without a response", err, broken.Load())
				}
				if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.CanRetry != test.canRetry) {
					s.Errorf("%#v", err)
				}
			})
		})
	}
}

// A request of which nothing was sent is retried, whatever its method.
func TestUnsentRequestIsRetried(t *testing.T) {
	for _, body := range []string{"", "short", strings.Repeat("long", 10_000)} {
		overAll(t, func(s *site) {
			var fails atomic.Bool
			dial, dials := s.config.Settings.DialContext, 0
			s.config.Settings.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				if dials++; dials == 1 {
					return unsendable{nc, &fails}, err
				}
				return nc, err
			}
			s.serve(func(_ int, c speaker) { serveAll(c, "hello") })
			s.must(s.request("GET", nil), "hello")
			fails.Store(true)
			if s.must(s.request("POST", strings.NewReader(body)), "hello"); dials != 2 {
				s.Errorf("%d connections", dials)
			}
		})
	}
}

// unsendable is a connection whose writes may fail, and then write nothing.
type unsendable struct {
	net.Conn
	fails *atomic.Bool
}

func (u unsendable) Write(b []byte) (int, error) {
	if u.fails.Load() {
		return 0, io.ErrClosedPipe
	}
	return u.Conn.Write(b)
}

// If a kept connection ends, and the new one negotiates HTTP/2, the retry sends the whole body.
func TestRetryOverHTTP2SendsWholeBody(t *testing.T) {
	for _, size := range []int{100, 100_000} {
		want := strings.Repeat("x", size)
		var isOld atomic.Bool
		isOld.Store(true)
		address, settings := serveALPN(t, &isOld, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method == http.MethodGet {
				return
			}
			if r.ProtoMajor == 1 {
				isOld.Store(false)
				nc, _, _ := http.NewResponseController(w).Hijack()
				nc.Close()
				return
			}
			_, _ = w.Write(body)
		})
		c := New(&Config{Settings: settings})
		t.Cleanup(c.CloseIdleConnections)
		testkit.Value(c.RoundTrip(request(t, "GET", address, nil)))(t).Body.Close()
		var isOpen atomic.Int32
		r := request(t, "POST", address, strings.NewReader(want))
		countBodies(r, &isOpen)
		r.Header.Set("Idempotency-Key", "1")
		resp := testkit.Value(c.RoundTrip(r))(t)
		testkit.Equal(t, resp.ProtoMajor, 2, "version")
		testkit.Reads(t, resp.Body, want)
		resp.Body.Close()
		testkit.WaitFor(t, "all bodies to be closed", func() bool { return isOpen.Load() == 0 })
	}
}

// countBodies makes isOpen the number of bodies of a request that are not closed.
func countBodies(r *http.Request, isOpen *atomic.Int32) {
	count := func(b io.ReadCloser) io.ReadCloser {
		isOpen.Add(1)
		return &countedBody{Reader: b, isOpen: isOpen}
	}
	if r.Body == nil {
		return
	}
	r.Body = count(r.Body)
	if again := r.GetBody; again != nil {
		r.GetBody = func() (io.ReadCloser, error) {
			b, err := again()
			return count(b), err
		}
	}
}

// countedBody is a body that counts itself until it is closed.
type countedBody struct {
	io.Reader
	isOpen *atomic.Int32
	once   sync.Once
}

func (b *countedBody) Close() error {
	b.once.Do(func() { b.isOpen.Add(-1) })
	return nil
}

// However requests fail at the limit of connections, no slot is lost: later requests get
// connections, and no connection counts as used at the end.
func TestFailuresLoseNoSlots(t *testing.T) {
	testkit.Long(t, "it fails for seconds")
	overAll(t, func(s *site) {
		s.config.Settings.MaxConnsPerHost, s.config.Settings.MaxIdleConnsPerHost = 2, 2
		s.serve(func(_ int, c speaker) {
			for id, ok := c.head(); ok && failsAs(c, id); id, ok = c.head() {
			}
		})
		var all sync.WaitGroup
		for i := range 8 {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			all.Go(func() {
				for range 40 {
					s.sendRandom(r)
				}
			})
		}
		all.Wait()
		s.the().CloseIdleConnections() // unrequested bytes of a server may arrive late
		for range 3 {
			s.must(s.request("GET", nil), "hello")
		}
	})
}

// endless is a connection without read deadlines, such as a tunnel of package ssh.
type endless struct{ net.Conn }

func (endless) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// A TLS connection is kept although the connection beneath has no deadlines.
func TestTLSConnectionWithoutDeadlinesIsKept(t *testing.T) {
	s := newSite(t, protocols()[0], "tls")
	l := s.listen()
	wait := testkit.Accept(l, func(_ int, nc net.Conn) { serveAll(newHTTP1Speaker(nc), "hello") })
	_, config := tlstest.Configs()
	c := New(&Config{Settings: &http.Transport{TLSClientConfig: config,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, l.Addr().String())
			return endless{nc}, err
		}}})
	wantText(t, c, request(t, http.MethodGet, "https://host/", nil), "hello")
	testkit.Equal(t, c.Count().Idle, 1, "idle connections")
	c.CloseIdleConnections()
	l.Close()
	wait()
}

// failsAs is the end of a server that fails as a request asks. It reports whether the connection
// goes on.
func failsAs(c speaker, how string) bool {
	switch how {
	case "close":
		return false
	case "byte":
		_, _ = c.Write([]byte("H\x01"))
		return false
	case "noise":
		_, _ = c.Write([]byte("\x00\x00 noise\r\n\r\n"))
	case "early":
		c.respond("early")
	case "half":
		c.begin()
		c.send("half")
		return false
	case "silent":
		time.Sleep(3 * time.Millisecond)
	}
	for {
		switch text, ok := c.part(); {
		case !ok:
			return false
		case text == "":
			if how == "" {
				c.respond("hello")
			}
			if how == "more" {
				c.respond("hello")
				_, _ = io.WriteString(c, "stray")
			}
			return true
		}
	}
}

// sendRandom sends a request that may fail in one of many ways.
func (s *site) sendRandom(r *rand.Rand) {
	ctx, cancel := context.WithTimeout(s.Context(), time.Duration(1+r.IntN(4000))*time.Microsecond)
	defer cancel()
	var body io.Reader
	switch text := strings.Repeat("x", 1+r.IntN(100_000)); r.IntN(5) {
	case 0:
		body = strings.NewReader(text)
	case 1:
		body = hidden(text)
	case 2:
		body = io.MultiReader(hidden(text), iotest.ErrReader(io.ErrClosedPipe))
	}
	q := s.request([]string{http.MethodGet, http.MethodPost}[r.IntN(2)], body).WithContext(ctx)
	hows := []string{"", "", "", "close", "byte", "noise", "early", "half", "silent", "more"}
	q.Header.Set("X-Id", hows[r.IntN(len(hows))])
	resp, err := s.the().RoundTrip(q)
	if err != nil {
		return
	}
	if r.IntN(4) > 0 {
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	if r.IntN(4) > 0 {
		go resp.Body.Close()
	}
	resp.Body.Close()
}
