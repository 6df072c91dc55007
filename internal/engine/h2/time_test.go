package h2_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
)

// expiresAfter fails unless WaitDeadline is after a duration, and returns what Expire returns then.
func (p *peer) expiresAfter(d time.Duration) (closes bool) {
	p.Helper()
	at := p.session.WaitDeadline()
	if got := time.Until(at); got != d {
		p.Fatalf("the deadline is after %v, want %v", got, d)
	}
	time.Sleep(d)
	return p.session.Expire()
}

func TestIdleConnectionEndsWithGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil, hello)
		p.open()
		time.Sleep(10 * time.Second)
		p.get(1)
		p.pump()
		p.rest()
		if p.expiresAfter(time.Minute) {
			t.Error("the client has no time to read the last frame")
		}
		p.wantRest("GOAWAY NO_ERROR")
		if !p.ended || !p.expiresAfter(time.Second) {
			t.Error("the connection stays open")
		}
	})
}

// A client that receives its last response slowly receives all of it, also if the session ends
// meanwhile, or would if it were idle.
func TestSlowClientReceivesLastResponse(t *testing.T) {
	for _, how := range []string{"idle", "shutdown", "GOAWAY"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 20000)) })
				p.open()
				p.accepts = 1000
				p.get(1)
				p.pump()
				switch how {
				case "shutdown":
					p.session.Shutdown()
					time.Sleep(time.Second)
					p.session.Expire()
				case "GOAWAY":
					p.framer.WriteGoAway(0, http2.ErrCodeNo, nil)
					p.pump()
				}
				for range 6 {
					time.Sleep(20 * time.Second)
					p.accepts = 1000
					p.session.Flush()
					if at := p.session.WaitDeadline(); !at.IsZero() && !time.Now().Before(at) && p.session.Expire() {
						t.Fatal("the connection is closed")
					}
				}
				p.accepts = -1
				p.session.Flush()
				if how == "idle" {
					p.expiresAfter(time.Until(p.session.WaitDeadline()))
				}
				if !p.ended || !p.expiresAfter(time.Second) {
					t.Error("the connection stays open")
				}
				if got := p.rest(); !strings.Contains(got, " end") || !strings.Contains(got, "GOAWAY NO_ERROR") {
					t.Errorf("the server has sent %s", got)
				}
			})
		})
	}
}

func TestPrefaceAndHeadsMustArriveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil, hello)
		p.input.WriteString(preface)
		p.pump()
		if !p.expiresAfter(30 * time.Second) {
			t.Error("the connection stays open")
		}
		p = newPeer(t, nil, hello)
		p.open()
		p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(":method", "GET")})
		p.pump()
		time.Sleep(10 * time.Second)
		p.framer.WriteContinuation(1, false, p.encode("a", "b"))
		p.pump()
		if !p.expiresAfter(20 * time.Second) {
			t.Error("the connection stays open")
		}
	})
}

func TestSilentClientReceivesPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 3 * time.Second}
		p := newPeer(t, set, hello)
		p.open()
		if p.expiresAfter(5 * time.Second) {
			t.Error("the connection ends without a PING")
		}
		p.wantRest("PING")
		p.framer.WritePing(true, [8]byte([]byte("is alive")))
		p.pump()
		if p.expiresAfter(5 * time.Second) {
			t.Error("the connection ends although the client responded")
		}
		if !p.expiresAfter(3 * time.Second) {
			t.Error("the connection stays open although the client did not respond")
		}
	})
}

func TestUnacknowledgedEndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil, hello)
		p.open()
		p.session.Shutdown()
		p.session.Flush()
		if p.expiresAfter(time.Second) {
			t.Error("the client has no time to read the last frames")
		}
		p.wantRest("GOAWAY NO_ERROR, PING, GOAWAY NO_ERROR")
		if !p.ended || !p.expiresAfter(time.Second) {
			t.Error("the connection stays open")
		}
	})
}

// A client that grants no window makes the handler's Write fail after SendTimeout, or at the
// handler's deadline. The request's context has then ended.
func TestZeroWindowStallEnds(t *testing.T) {
	for i, deadline := range []time.Duration{0, 3 * time.Second, 0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var err, ended error
			start, want := time.Now(), 7*time.Second
			p := newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
				c := http.NewResponseController(w)
				w.(connection.SendTimer).SetSendTimeout(want)
				if deadline > 0 {
					c.SetWriteDeadline(time.Now().Add(deadline))
				}
				if _, err = w.Write(make([]byte, 5+10000*(i/2))); err == nil {
					err = c.Flush()
				}
				ended = r.Context().Err()
			})
			p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			p.get(1)
			p.session.Receive(p.input.Bytes())
			st := p.session.Next()
			st.Run(nil, 0)
			st.Settle()
			if deadline > 0 {
				want = deadline
			}
			if elapsed := time.Since(start); elapsed != want || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%v after %v, want %v", err, elapsed, want)
			}
			if ended != context.Canceled {
				t.Errorf("the context has ended with %v", ended)
			}
			synctest.Wait() // for the deadline's goroutine, which sends
			p.wantRest("HEADERS 200, RST_STREAM INTERNAL_ERROR")
		})
	}
}

// A client that receives nothing for WriteTimeout loses its connection, unless a handler has set a
// write deadline. That replaces WriteTimeout, until the session was idle.
func TestWriteDeadlineReplacesStallLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				http.NewResponseController(w).SetWriteDeadline(time.Time{})
			}
			w.Write(make([]byte, 20000))
		}, func(c *exchange.Config) { c.WriteTimeout = 3 * time.Second })
		p.open()
		p.accepts = 1000
		p.get(1)
		p.pump()
		if p.expiresAfter(time.Minute) {
			t.Error("the connection is closed, although the handler has lifted WriteTimeout")
		}
		p.accepts = -1
		p.session.Flush()
		p.accepts = 1000
		p.post(3)
		p.pump()
		if !p.expiresAfter(3 * time.Second) {
			t.Error("the connection stays open")
		}
	})
}
