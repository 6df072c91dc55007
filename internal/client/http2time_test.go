package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// respondAll serves a connection by short responses.
func respondAll(p *http2Peer) {
	p.start()
	for id := p.request(); id != 0; id = p.request() {
		p.respond(id)
	}
}

// A request that no server processes is tried five times, with pauses, and so is dialing. On a kept
// connection that turns out to be closed, or that the server leaves, one more attempt succeeds.
func TestHTTP2RetriesAreLimited(t *testing.T) {
	long := strings.Repeat("x", 40_000)
	goAway := func(p *http2Peer, id uint32) { p.write(wire.AppendGoAway(nil, max(id, 2)-2, wire.NoError)) }
	fail := func(p *http2Peer, id uint32) { p.write(wire.AppendGoAway(nil, max(id, 2)-2, wire.InternalError)) }
	refuse := func(p *http2Peer, id uint32) { p.write(wire.AppendRSTStream(nil, id, wire.RefusedStream)) }
	leave := func(p *http2Peer, _ uint32) { p.Close() }
	exceed := func(p *http2Peer, id uint32) { p.write(wire.AppendRSTStream(nil, id, wire.ProtocolError)) }
	for _, test := range []struct {
		name         string
		respond      func(p *http2Peer, id uint32)
		isProxy      bool
		isKept       bool // only the second request on the first connection has no response
		body         io.Reader
		tries, dials int
		canRetry     bool
		settings     []wire.Setting
	}{
		{name: "no streams", respond: refuse, tries: 5, dials: 5, canRetry: true,
			settings: []wire.Setting{{ID: wire.MaxConcurrentStreams}}},
		{name: "GOAWAY", respond: goAway, tries: 5, dials: 5, canRetry: true},
		{name: "GOAWAY with an error", respond: fail, tries: 1, dials: 1, canRetry: true},
		{name: "GOAWAY to a proxy", respond: goAway, isProxy: true, tries: 1, dials: 1, canRetry: true},
		{name: "refused", respond: refuse, tries: 5, dials: 1, canRetry: true},
		{name: "refused POST", respond: refuse, body: strings.NewReader("body"), tries: 5, dials: 1, canRetry: true},
		{name: "body that cannot be sent again", respond: refuse, body: hidden("body"), tries: 1, dials: 1,
			canRetry: true},
		{name: "limit exceeded", respond: exceed, tries: 5, dials: 5, canRetry: true},
		{name: "limit exceeded by POST", respond: exceed, body: strings.NewReader("body"), tries: 1, dials: 1},
		{name: "closed", respond: leave, tries: 1, dials: 1, canRetry: true},
		{name: "closed POST", respond: leave, body: strings.NewReader("body"), tries: 1, dials: 1},
		{name: "kept, GOAWAY", respond: goAway, isKept: true, body: strings.NewReader(long), tries: 3, dials: 2},
		{name: "kept, GOAWAY with an error", respond: fail, isKept: true, body: strings.NewReader(long), tries: 3, dials: 2},
		{name: "kept, closed", respond: leave, isKept: true, body: strings.NewReader(long), tries: 3, dials: 2},
		{name: "kept, refused", respond: refuse, isKept: true, body: strings.NewReader(long), tries: 3, dials: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				tries := 0
				c, dials := serveHTTP2(t, new(http.Transport), func(p *http2Peer) {
					p.start(test.settings...)
					for id := p.request(); id != 0; id = p.request() {
						mu.Lock()
						tries++
						mu.Unlock()
						if test.isKept && (p.n > 0 || id != 3) {
							p.respond(id)
							continue
						}
						if test.body != nil { // the client has read the body when a part arrives
							for h, _, ok := p.frame(); ok && h.Type != wire.Data; h, _, ok = p.frame() {
							}
						}
						test.respond(p, id)
					}
				})
				if test.isProxy {
					c.config.Verbatim = true
				}
				if test.isKept {
					wantText(t, c, request(t, http.MethodGet, "http://host/", nil), "hello")
				}
				method, began := http.MethodGet, time.Now()
				if test.body != nil {
					method = http.MethodPost
				}
				r := request(t, method, "http://host/", test.body)
				if test.isKept {
					r.Header.Set("Idempotency-Key", "1")
				}
				var isOpen atomic.Int32
				countBodies(r, &isOpen)
				_, _, err := send(c, r)
				synctest.Wait()
				testkit.Equal(t, isOpen.Load(), 0, "open bodies")
				var known *Error
				if test.isKept {
					testkit.Check(t, err)
				} else if !errors.As(err, &known) || known.CanRetry != test.canRetry {
					t.Errorf("error %#v, want CanRetry %v", err, test.canRetry)
				}
				mu.Lock()
				defer mu.Unlock()
				took := time.Since(began)
				if tries != test.tries || dials() != test.dials || test.tries == 5 && took != 210*time.Millisecond {
					t.Errorf("%d tries, %d dials in %v, want %d and %d", tries, dials(), took, test.tries, test.dials)
				}
			})
		})
	}
}

// Timers end what a server does not.
func TestHTTP2Timeouts(t *testing.T) {
	half := func(p *http2Peer) {
		p.start()
		id := p.request()
		p.write(headFrame(id, 0, ":status", "200")[:4])
		p.request()
	}
	tail := func(p *http2Peer) {
		p.start()
		p.write(headFrame(p.request(), 0, ":status", "200"))
		p.request()
	}
	deaf := func(p *http2Peer) { p.start(); p.write(wire.AppendWindowUpdate(nil, 0, 1<<30)); time.Sleep(time.Hour) }
	pings := &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 5 * time.Second}
	for _, test := range []struct {
		name   string
		script func(p *http2Peer)
		set    *http.Transport
		body   bool
		want   time.Duration
		during string
	}{
		{name: "head", script: silent, set: &http.Transport{ResponseHeaderTimeout: time.Second}, want: time.Second,
			during: whileWaiting},
		{name: "ping", script: silent, set: &http.Transport{HTTP2: pings}, want: 35 * time.Second, during: whileWaiting},
		{name: "half a frame", script: half, set: &http.Transport{HTTP2: pings}, want: 35 * time.Second,
			during: whileWaiting},
		{name: "no body", script: tail, set: &http.Transport{HTTP2: pings}, want: 35 * time.Second,
			during: whileReadingBody},
		{name: "nothing is read", script: deaf, body: true, want: 2 * time.Minute, during: whileWaiting},
		{name: "nothing is read for a short time", script: deaf, body: true, want: 4 * time.Second,
			during: whileWaiting, set: &http.Transport{HTTP2: &http.HTTP2Config{WriteByteTimeout: 2 * time.Second}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := serveHTTP2(t, cmp.Or(test.set, new(http.Transport)), func(p *http2Peer) {
					if p.n == 0 {
						test.script(p)
						return
					}
					respondAll(p)
				})
				r, began := request(t, http.MethodGet, "http://host/", nil), time.Now()
				if test.body {
					r = request(t, http.MethodPost, "http://host/", io.LimitReader(zeros{}, 1<<20))
				}
				_, _, err := send(c, r)
				var known *Error
				if !errors.As(err, &known) || known.Kind != TimedOut || !errors.Is(err, os.ErrDeadlineExceeded) ||
					known.During != test.during || time.Since(began) != test.want {
					t.Errorf("%v (%q) after %v, want %v", err, known.During, time.Since(began), test.want)
				}
				wantText(t, c, request(t, http.MethodGet, "http://host/", nil), "hello")
			})
		})
	}
}

// A request that ends by its context returns the cause at once, although nobody reads what the
// connection sends. The next one does not use a connection that may be dead.
func TestHTTP2CancellationDoesNotWait(t *testing.T) {
	for _, reads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, dials := serveHTTP2(t, new(http.Transport), func(p *http2Peer) {
				switch {
				case p.n > 0:
					respondAll(p)
				case reads:
					silent(p)
				default:
					p.start()
					p.write(wire.AppendWindowUpdate(nil, 0, 1<<30))
					time.Sleep(time.Hour)
				}
			})
			cause := errors.New("the cause")
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
			defer cancel()
			began := time.Now()
			r := request(t, http.MethodPost, "http://host/", io.LimitReader(zeros{}, 1<<20)).WithContext(ctx)
			_, _, err := send(c, r)
			if err != cause || time.Since(began) != time.Second { //nolint:errorlint // not wrapped
				t.Errorf("%v after %v", err, time.Since(began))
			}
			for range 2 {
				wantText(t, c, request(t, http.MethodGet, "http://host/", nil), "hello")
			}
			testkit.Equal(t, time.Since(began), time.Second, "time of all requests")
			testkit.Equal(t, dials(), 2, "dials")
			c.CloseIdleConnections()
			time.Sleep(2 * time.Minute)
			testkit.Equal(t, c.Count().Active, 0, "uses of the dead connection")
		})
	}
}

// silent reads frames and responds to none.
func silent(p *http2Peer) {
	p.start()
	silentFrames(p)
}

// The server's limit of streams holds: further requests use further connections, or wait.
func TestHTTP2StreamLimit(t *testing.T) {
	const requests = 20
	for _, test := range []struct {
		name  string
		limit uint32
		set   *http.Transport
		dials int           // besides the first
		took  time.Duration // each response takes a second
	}{
		{name: "more connections", limit: 5, dials: 3, took: time.Second},
		{name: "strict", limit: 5, took: 4 * time.Second,
			set: &http.Transport{HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true}}},
		{name: "two connections", limit: 5, dials: 1, took: 2 * time.Second, set: &http.Transport{MaxConnsPerHost: 2}},
		{name: "one request each", limit: 5, dials: requests, took: time.Second,
			set: &http.Transport{DisableKeepAlives: true}},
		{name: "many", limit: 1000, took: time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, dials := serveHTTP2(t, cmp.Or(test.set, new(http.Transport)), func(p *http2Peer) {
					p.start(wire.Setting{ID: wire.MaxConcurrentStreams, Value: test.limit})
					var all sync.WaitGroup
					var mu sync.Mutex
					open := 0
					for id := p.request(); id != 0; id = p.request() {
						mu.Lock()
						if open++; open > int(test.limit) {
							t.Errorf("%d streams on connection %d", open, p.n)
						}
						mu.Unlock()
						all.Go(func() {
							time.Sleep(time.Second)
							mu.Lock()
							defer mu.Unlock()
							open--
							p.respond(id)
						})
					}
					all.Wait()
				})
				_, _, _ = send(c, request(t, http.MethodGet, "http://host/", nil)) // the settings arrive
				began, before := time.Now(), dials()
				var all sync.WaitGroup
				for range requests {
					all.Go(func() {
						wantText(t, c, request(t, http.MethodGet, "http://host/", nil), "hello")
					})
				}
				all.Wait()
				testkit.Equal(t, dials()-before, test.dials, "dials")
				testkit.Equal(t, time.Since(began), test.took)
			})
		})
	}
}

// Interim responses reach the hooks of a call, and a body waits for 100 Continue.
// TestTransportCallsTraceHooksAsNetHTTP shows the hooks of a trace.
func TestHTTP2InterimResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &http.Transport{ExpectContinueTimeout: time.Hour, MaxResponseHeaderBytes: 1}
		c, _ := serveHTTP2(t, set, func(p *http2Peer) {
			p.start()
			for id := p.request(); id != 0; id = p.request() {
				for range 3 { // the heads that the client has received do not count toward the limit
					p.write(headFrame(id, 0, ":status", "103", "link", "x", "x-long", strings.Repeat("x", 120)))
					time.Sleep(time.Second)
				}
				p.write(headFrame(id, 0, ":status", "100"))
				for h, _, ok := p.frame(); ok && (h.Type != wire.Data || !h.Flags.Has(wire.EndStream)); {
					h, _, ok = p.frame()
				}
				p.respond(id)
			}
		})
		c.config.Verbatim = true
		hooks := &recorder{dial: c.settings.DialContext}
		r := request(t, http.MethodPost, "http://host/", strings.NewReader("body"))
		r.Header.Set("Expect", "100-continue")
		if _, text, err := sendCall(c, r, &Call{Hooks: hooks}); text != "hello" ||
			strings.Join(hooks.interim, ",") != "Early Hintsx,Early Hintsx,Early Hintsx" {
			t.Errorf("%q, %v, %q", text, err, hooks.interim)
		}
	})
}

// Requests that arrive while a connection is being opened share it, or its error. Without
// keep-alive they wait for a connection of their own.
func TestHTTP2DialsAreShared(t *testing.T) {
	const requests = 32
	for _, failure := range []string{"", "refused", "canceled", "refused once"} {
		t.Run(failure, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := new(http.Transport)
				if failure == "refused once" {
					set.DisableKeepAlives, set.MaxConnsPerHost = true, 1
				}
				c, _ := serveHTTP2(t, set, respondAll)
				dial, dials, mu := c.settings.DialContext, 0, new(sync.Mutex)
				c.settings.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					mu.Lock()
					n := dials
					dials++
					mu.Unlock()
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					if strings.HasPrefix(failure, "refused") && n == 0 {
						return nil, net.ErrClosed
					}
					return dial(ctx, network, addr)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				failed := 0
				for i := range requests {
					all.Go(func() {
						r := request(t, http.MethodGet, "http://host/", nil)
						if i == 0 {
							r = r.WithContext(ctx)
						}
						if _, _, err := send(c, r); err != nil {
							mu.Lock()
							failed++
							mu.Unlock()
						}
					})
					synctest.Wait()
				}
				if failure == "canceled" {
					cancel()
				}
				all.Wait()
				cancel()
				want := map[string][2]int{"": {1, 0}, "refused": {1, requests}, "canceled": {2, 1},
					"refused once": {requests, 1}}[failure]
				testkit.Equal(t, [2]int{dials, failed}, want, "dials and failures")
			})
		})
	}
}

// An idle connection is closed after its time, and the server learns of it.
func TestHTTP2IdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peer *http2Peer
		c, dials := serveHTTP2(t, &http.Transport{IdleConnTimeout: time.Minute}, func(p *http2Peer) {
			peer = p
			respondAll(p)
		})
		for range 3 {
			_, _, _ = send(c, request(t, http.MethodGet, "http://host/", nil))
			time.Sleep(59 * time.Second)
		}
		testkit.Equal(t, c.Count().Idle, 1, "idle connections")
		testkit.Equal(t, dials(), 1, "dials")
		time.Sleep(time.Second)
		synctest.Wait()
		testkit.Equal(t, c.Count(), Count{})
		testkit.Equal(t, peer.seen, []string{"GOAWAY NO_ERROR"})
	})
}
