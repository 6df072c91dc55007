package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// What arrives in time ends no request: content while a PING has no response, or the rest of a response
// whose head arrived before the request's end.
func TestHTTP2SlowResponsesArrive(t *testing.T) {
	for name, set := range map[string]*http.Transport{"ResponseHeaderTimeout": {ResponseHeaderTimeout: time.Second},
		"ping": {HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 5 * time.Second}}} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := serveHTTP2(t, set, func(p *http2Peer) {
				p.start()
				id := p.request()
				p.write(headFrame(id, 0, ":status", "200"))
				go silentFrames(p)
				for i := range 3 {
					time.Sleep(33 * time.Second)
					p.write(dataFrame(id, map[bool]wire.Flags{true: wire.EndStream}[i == 2], "x"))
				}
				time.Sleep(time.Second)
			})
			body, feed := io.Pipe()
			time.AfterFunc(10*time.Second, func() { feed.Close() })
			_, text, err := send(c, request(t, http.MethodPost, "http://host/", body))
			testkit.Equal(t, fmt.Sprint(text, err), "xxx<nil>", name)
		})
	}
}

// silentFrames reads frames and responds to none.
func silentFrames(p *http2Peer) {
	for _, _, ok := p.frame(); ok; _, _, ok = p.frame() {
	}
}

// Requests do not wait for a connection that accepts too little: those behind it use another one.
func TestHTTP2RequestsAvoidFullConnections(t *testing.T) {
	for _, test := range []struct {
		requests int
		pause    time.Duration
	}{{requests: 1, pause: 2 * time.Second}, {requests: 10}} {
		synctest.Test(t, func(t *testing.T) {
			c, dials := serveHTTP2(t, new(http.Transport), func(p *http2Peer) {
				if p.n > 0 {
					respondAll(p)
					return
				}
				p.start()
				time.Sleep(time.Hour)
			})
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range test.requests {
				r := request(t, http.MethodGet, "http://host/", nil).WithContext(ctx)
				r.Header.Set("X-Long", strings.Repeat("x", 100_000))
				all.Go(func() { _, _, _ = send(c, r) })
				synctest.Wait()
			}
			time.Sleep(test.pause)
			began := time.Now()
			wantText(t, c, request(t, http.MethodGet, "http://host/", nil), "hello")
			testkit.Equal(t, time.Since(began), 0, "time after", test)
			testkit.Equal(t, dials(), 2, "dials after", test)
			cancel()
			all.Wait()
		})
	}
}

// A request that waits for a stream gets it when the server raises its limit. An idle connection that
// the server leaves is closed.
func TestHTTP2ServersChangeTheirMind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan bool, 1)
		set := &http.Transport{HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true}}
		c, dials := serveHTTP2(t, set, func(p *http2Peer) {
			p.start(wire.Setting{ID: wire.MaxConcurrentStreams, Value: 1})
			first := p.request()
			time.Sleep(time.Second)
			p.write(wire.AppendSettings(nil, wire.Setting{ID: wire.MaxConcurrentStreams, Value: 2}))
			p.respond(p.request())
			p.respond(first)
			time.Sleep(time.Second)
			p.write(wire.AppendGoAway(nil, 3, wire.NoError))
			silentFrames(p)
			ended <- true
		})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { wantText(t, c, request(t, http.MethodGet, "http://host/", nil), "hello") })
			synctest.Wait()
		}
		all.Wait()
		<-ended
		testkit.Equal(t, dials(), 1, "dials")
	})
}

// A server that is slow, but responds to the first PING, receives further requests even if no other
// connection may be opened. If it never responds to PING, but sends other frames, it receives those that
// waited for the PING's response.
func TestHTTP2SlowServersReceiveRequests(t *testing.T) {
	for _, test := range []struct {
		name    string
		set     *http.Transport
		pings   bool // has responses
		slow    int  // requests that get none
		waiting time.Duration
	}{
		{"one connection", &http.Transport{MaxConnsPerHost: 1}, true, 3, 0},
		{"strict", &http.Transport{HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true}}, true, 3, 0},
		{"no PING", &http.Transport{MaxConnsPerHost: 1}, false, 2, 14 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pings atomic.Int32 // only one: some servers end connections for more
				c, dials := serveHTTP2(t, test.set, func(p *http2Peer) {
					p.start()
					for h, payload, ok := p.frame(); ok; h, payload, ok = p.frame() {
						switch {
						case h.Type == wire.Ping:
							if pings.Add(1); test.pings {
								p.write(wire.AppendPing(nil, wire.Ack, [8]byte(payload)))
							}
						case h.Type == wire.Headers && h.StreamID == 1: // remains open
							p.write(headFrame(1, 0, ":status", "200"))
						case h.Type == wire.RSTStream && h.StreamID == 3 && !test.pings: // after the PING
							p.write(dataFrame(1, 0, "x"))
						case h.Type == wire.Headers && int(h.StreamID) > 1+2*test.slow:
							p.respond(h.StreamID)
						}
					}
				})
				resp := testkit.Value(c.RoundTrip(request(t, http.MethodGet, "http://host/", nil)))(t)
				defer resp.Body.Close()
				for i := range test.slow {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_, text, err := send(c, request(t, http.MethodGet, "http://host/", nil).WithContext(ctx))
					if cancel(); err == nil {
						t.Errorf("request %d: %q", i, text)
					}
					synctest.Wait() // the connection knows that the request was abandoned
				}
				began := time.Now()
				for range 2 {
					wantText(t, c, request(t, http.MethodGet, "http://host/", nil), "hello")
				}
				testkit.Equal(t, time.Since(began), test.waiting)
				testkit.Equal(t, pings.Load(), 1, "PINGs")
				testkit.Equal(t, dials(), 1, "dials")
			})
		})
	}
}
