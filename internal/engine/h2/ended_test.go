package h2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/connection"
)

// endings are requests whose streams the server ends before the client does.
func endings() map[string]func(*peer) {
	return map[string]func(*peer){
		"response":        func(p *peer) { p.upload1("/") },
		"panic":           func(p *peer) { p.upload1("/panic") },
		"write deadline":  func(p *peer) { p.upload1("/deadline") },
		"refused":         func(p *peer) { p.upload1("/%zz") },
		"malformed":       func(p *peer) { p.upload1("/", "connection", "close") },
		"error of stream": func(p *peer) { p.upload1("/read"); p.framer.WriteWindowUpdate(1, 1<<31-1) },
	}
}

// upload1 begins an upload on stream 1.
func (p *peer) upload1(path string, fields ...string) {
	head := []string{":method", "POST", ":scheme", "http", ":authority", "a", ":path", path, "trailer", "sum"}
	p.request(1, false, append(head, fields...)...)
}

func endEarly(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/panic":
		panic(http.ErrAbortHandler)
	case "/deadline":
		http.NewResponseController(w).SetWriteDeadline(time.Now())
		<-r.Context().Done()
	case "/read":
		io.Copy(io.Discard, r.Body)
	}
	io.WriteString(w, "no")
}

// serveAll passes the frames to the session, and runs the handlers in goroutines.
func (p *peer) serveAll() {
	p.receive()
	p.runReady()
	p.session.Flush()
	synctest.Wait()
}

// acknowledge acknowledges the PINGs of early responses.
func (p *peer) acknowledge() {
	for _, id := range []byte{1, 3} {
		p.framer.WritePing(true, [8]byte{'r', 'e', 's', 'p', 7: id})
	}
	p.serveAll()
}

// sleep runs what is due within a duration.
func (p *peer) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// RST_STREAM follows an early response only when the client has received it, or does not
// acknowledge that. A client that ends the stream itself receives none.
func TestResetFollowsEarlyResponse(t *testing.T) {
	const ping, reset = "PING", "RST_STREAM NO_ERROR"
	const grace = 100 * time.Millisecond
	for name, c := range map[string]struct {
		steps func(*peer)
		want  string
	}{
		"early":          {func(p *peer) { p.sleep(grace - 1) }, ""},
		"acknowledged":   {func(p *peer) { p.sleep(grace); p.acknowledge() }, ping + ", " + reset},
		"unacknowledged": {func(p *peer) { p.sleep(grace + time.Second) }, ping + ", " + reset},
		"slow client": {func(p *peer) { // which has not received the response
			p.accepts = 0
			p.get(3)
			p.serveAll()
			p.sleep(time.Minute)
			p.accepts = -1
		}, "HEADERS 200, DATA no end, PING"},
		"ended by DATA": {func(p *peer) {
			p.framer.WriteData(1, true, []byte("x"))
			p.serveAll()
			p.sleep(grace)
		}, ""},
		"ended by trailers": {func(p *peer) {
			p.request(1, true, "sum", "1")
			p.serveAll()
			p.sleep(grace)
		}, ""},
		"canceled": {func(p *peer) {
			p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
			p.serveAll()
			p.sleep(grace)
		}, ""},
		"canceled after PING": {func(p *peer) {
			p.sleep(grace)
			p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
			p.acknowledge()
		}, ping},
		"other upload meanwhile": {func(p *peer) {
			p.sleep(grace / 2)
			p.upload(3, 100, false)
			p.serveAll()
			for range 3 {
				p.sleep(grace / 2)
				p.acknowledge()
			}
		}, "HEADERS 200, DATA no end, PING, RST_STREAM NO_ERROR, PING, RST_STREAM NO_ERROR"},
		"DATA after its end": {func(p *peer) {
			p.framer.WriteData(1, true, []byte("x"))
			p.framer.WriteData(1, true, []byte("x"))
		}, "RST_STREAM STREAM_CLOSED"},
		"DATA after RST_STREAM": {func(p *peer) {
			p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
			p.framer.WriteData(1, true, []byte("x"))
		}, "RST_STREAM STREAM_CLOSED"},
		"trailers after RST_STREAM": {func(p *peer) {
			p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
			p.request(1, true, "sum", "1")
		}, "GOAWAY STREAM_CLOSED"},
		"DATA above the window": {func(p *peer) {
			for range 2 {
				p.framer.WriteData(1, false, make([]byte, 600))
			}
		}, "RST_STREAM FLOW_CONTROL_ERROR"},
		"DATA without end": {func(p *peer) {
			for range 6 {
				p.framer.WriteData(1, false, make([]byte, 100))
				p.serveAll()
				p.sleep(600 * time.Millisecond)
			}
		}, ping + ", " + reset + ", RST_STREAM STREAM_CLOSED"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := openPeer(t, &http.HTTP2Config{MaxReceiveBufferPerStream: 1000}, endEarly)
				p.upload1("/")
				p.serveAll()
				p.wantRest("HEADERS 200, DATA no end")
				c.steps(p)
				p.serveAll()
				p.wantRest(c.want)
				if p.sleep(5 * time.Second); p.holdsStream() {
					t.Error("the session holds the stream")
				}
			})
		})
	}
}

// What a client sends before it learns that its stream has ended does not end the connection.
func TestFramesOfEndedStreamsAreDropped(t *testing.T) {
	sent := map[string]func(*peer){
		"DATA":       func(p *peer) { p.framer.WriteData(1, false, []byte("body")) },
		"empty DATA": func(p *peer) { p.framer.WriteData(1, false, nil) },
		"last DATA":  func(p *peer) { p.framer.WriteData(1, true, []byte("body")) },
		"small DATA": func(p *peer) {
			for range 2000 { // of 1 MB that may be under way
				p.framer.WriteData(1, false, make([]byte, 200))
			}
		},
		"trailers": func(p *peer) { p.request(1, true, "sum", "1") },
		"trailers in two frames": func(p *peer) {
			block := p.encode("sum", "1")
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:2], EndStream: true})
			p.framer.WriteContinuation(1, true, block[2:])
		},
		"WINDOW_UPDATE": func(p *peer) { p.framer.WriteWindowUpdate(1, 10) },
		"PRIORITY":      func(p *peer) { p.framer.WritePriority(1, http2.PriorityParam{}) },
		"RST_STREAM":    func(p *peer) { p.framer.WriteRSTStream(1, http2.ErrCodeCancel) },
		"PRIORITY_UPDATE": func(p *peer) {
			p.framer.WriteRawFrame(http2.FrameType(0x10), 0, 0, []byte{0, 0, 0, 1, 'u', '=', '1'})
		},
	}
	const acked, late = 500 * time.Millisecond, 2 * time.Second
	for ending, begin := range endings() {
		for name, send := range sent {
			for _, after := range []time.Duration{0, acked, late} {
				t.Run(ending+"/"+name+"/"+after.String(), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := openPeer(t, nil, endEarly)
						begin(p)
						p.serveAll()
						if p.sleep(after); after == acked {
							p.acknowledge()
						}
						p.rest()
						send(p)
						p.get(3)
						p.serveAll()
						got := p.rest()
						if strings.Contains(got, "GOAWAY") || !strings.Contains(got, "HEADERS 200, DATA no end") {
							t.Errorf("the server has sent %.200s", got)
						}
						if strings.Count(got, "RST_STREAM") > 1 {
							t.Errorf("the server has sent %.200s", got)
						}
					})
				})
			}
		}
	}
}

// If the client has ended a stream itself, more DATA is an error, also if the server has reset it.
// An error of a stream that is not open affects no later request on it.
func TestResetsExcuseNoFramesAfterTheClientsEnd(t *testing.T) {
	p := openPeer(t, nil, endEarly)
	p.request(1, true, head("GET", "/panic")...)
	p.pump()
	p.framer.WriteData(1, true, []byte("x"))
	p.framer.WritePriority(3, http2.PriorityParam{StreamDep: 3})
	p.get(3)
	p.pump()
	p.wantRest("RST_STREAM INTERNAL_ERROR, RST_STREAM STREAM_CLOSED, RST_STREAM PROTOCOL_ERROR, " +
		"HEADERS 200, DATA no end")
}

// A draining session ends when the last stream is reset whose response was early.
func TestDrainEndsWithEarlyResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPeer(t, nil, endEarly)
		p.upload1("/")
		p.serveAll()
		p.session.Shutdown()
		p.framer.WritePing(true, [8]byte([]byte("shutdown")))
		p.serveAll()
		p.sleep(earlyGrace)
		if p.acknowledge(); p.session.phase != phaseEnded {
			t.Errorf("the session has not ended, but sent %s", p.rest())
		}
	})
}

// A session that has ended closes its connection although its client reads nothing and no setting
// limits that.
func TestEndedSessionDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPeer(t, nil, hello)
		p.accepts = 0
		p.get(1)
		p.pump()
		p.framer.WriteGoAway(0, http2.ErrCodeNo, nil)
		p.pump()
		if !p.expiresAfter(30 * time.Second) {
			t.Error("the connection stays open")
		}
	})
}

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
		p := openPeer(t, nil, hello)
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
				p := openPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 20000)) })
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
		p = openPeer(t, nil, hello)
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
		p := openPeer(t, set, hello)
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
		p := openPeer(t, nil, hello)
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
// handler's deadline. The request's context has then ended. Later windows are not used: a response
// that has failed reserves nothing.
func TestZeroWindowStallEnds(t *testing.T) {
	for i, deadline := range []time.Duration{0, 3 * time.Second, 0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var err, ended error
			start, want := time.Now(), 7*time.Second
			var p *peer
			p = newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
				c := http.NewResponseController(w)
				w.(connection.SendTimer).SetSendTimeout(want)
				if deadline > 0 {
					c.SetWriteDeadline(time.Now().Add(deadline))
				}
				if _, err = w.Write(make([]byte, 5+10000*(i/2))); err == nil {
					err = c.Flush()
				}
				ended = r.Context().Err()
				p.framer.WriteWindowUpdate(1, 1<<20)
				p.receive()
				w.Write(make([]byte, 1000))
			})
			p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			p.get(1)
			p.receive()
			st := p.session.Next()
			st.Run(nil, 0)
			st.Settle()
			if n := p.pending(); n != 0 {
				t.Errorf("%d bytes count as output", n)
			}
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
		p := openPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				http.NewResponseController(w).SetWriteDeadline(time.Time{})
			}
			w.Write(make([]byte, 20000))
		}, func(c *Config) { c.Exchanges.WriteTimeout = 3 * time.Second })
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
