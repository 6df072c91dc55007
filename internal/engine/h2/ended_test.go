package h2

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/testkit"
)

func endEarly(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/panic":
		panic(http.ErrAbortHandler)
	case "/deadline":
		http.NewResponseController(w).SetWriteDeadline(time.Now())
		<-r.Context().Done()
		time.Sleep(time.Second) // its stream is reset before it returns
	case "/flush":
		w.(http.Flusher).Flush()
		io.Copy(io.Discard, r.Body)
	case "/read":
		io.Copy(io.Discard, r.Body)
	}
	io.WriteString(w, "no")
}

// serve sends frames, and runs the handlers in goroutines.
func (p *peer) serve(frames string) {
	p.Helper()
	p.send(frames)
	p.receive()
	p.runReady()
	p.session.Flush()
	synctest.Wait()
}

// play sends frames, lets time pass, or ends the session, step by step. The connection stays open
// until the last one.
func (p *peer) play(steps string) {
	p.Helper()
	for step := range strings.SplitSeq(steps, "; ") {
		testkit.Equal(p, p.ended, false, "the connection is closed before", step)
		if d, err := time.ParseDuration(step); err == nil {
			p.sleep(d)
		} else if step == "shutdown" {
			p.session.Shutdown()
		} else {
			p.serve(step)
		}
	}
}

func (p *peer) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// RST_STREAM follows an early response only when the client has received it, or does not
// acknowledge that. A client that ends the stream itself receives none. More DATA is then an error,
// also if the server has reset the stream. An error of a stream that is not open affects no later
// request on it.
func TestResetFollowsEarlyResponse(t *testing.T) {
	const ping, reset, grace = "PING", "RST_STREAM NO_ERROR", "100ms"
	for name, c := range map[string]struct{ steps, want string }{
		"early":                {"99.999ms", ""},
		"acknowledged":         {grace + "; ACK 1", ping + ", " + reset},
		"unacknowledged":       {grace + "; 1s", ping + ", " + reset},
		"ended by DATA":        {"DATA 1 x end; " + grace, ""},
		"ended by trailers":    {"TRAILERS 1; " + grace, ""},
		"canceled":             {"RST_STREAM 1; " + grace, ""},
		"canceled after PING":  {grace + "; RST_STREAM 1, ACK 1", ping},
		"unread by the client": {"GET 3; 1m", "HEADERS 200, DATA no end, PING"},
		"other upload meanwhile": {"50ms; POST 3, DATA 3 x*100" + strings.Repeat("; 50ms; ACK 1, ACK 3", 3),
			"HEADERS 200, DATA no end, PING, RST_STREAM NO_ERROR, PING, RST_STREAM NO_ERROR"},
		"no 100 after the head":     {"POST 3 /flush expect=100-continue; DATA 3 x end", "HEADERS 200, DATA no end"},
		"DATA after its end":        {"DATA 1 x end, DATA 1 x", "RST_STREAM STREAM_CLOSED"},
		"DATA after RST_STREAM":     {"RST_STREAM 1, DATA 1 x", "RST_STREAM STREAM_CLOSED"},
		"trailers after RST_STREAM": {"RST_STREAM 1, TRAILERS 1", "GOAWAY STREAM_CLOSED"},
		"DATA above the window":     {"DATA 1 x*600, DATA 1 x*600", "RST_STREAM FLOW_CONTROL_ERROR"},
		"DATA behind the client's end": {"GET 3 /panic; DATA 3 x end, PRIORITY 5 5, GET 5", "RST_STREAM INTERNAL_ERROR, " +
			"RST_STREAM STREAM_CLOSED, RST_STREAM PROTOCOL_ERROR, HEADERS 200, DATA no end"},
		"DATA without end": {strings.Repeat("DATA 1 x*100; 600ms; ", 6), ping + ", " + reset},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := openPeer(t, &http.HTTP2Config{MaxReceiveBufferPerStream: 1000}, endEarly)
				p.serve("POST 1")
				p.wantRest("HEADERS 200, DATA no end")
				if name == "unread by the client" {
					p.accepts = 0
				}
				p.play(c.steps)
				p.accepts = -1
				p.serve("")
				p.wantRest(c.want)
				p.sleep(5 * time.Second)
				testkit.Equal(t, p.holdsStream(), false, "the session holds the stream")
			})
		})
	}
}

// What a client sends before it learns that its stream has ended does not end the connection.
func TestFramesOfEndedStreamsAreDropped(t *testing.T) {
	sent := map[string]string{
		"DATA":                   "DATA 1 body",
		"empty DATA":             "DATA 1",
		"last DATA":              "DATA 1 body end",
		"small DATA":             strings.Repeat("DATA 1 x*200, ", 2000), // of 1 MB that may be under way
		"trailers":               "TRAILERS 1",
		"trailers in two frames": "TRAILERS-IN-TWO 1",
		"WINDOW_UPDATE":          "WINDOW_UPDATE 1 10",
		"PRIORITY":               "PRIORITY 1",
		"RST_STREAM":             "RST_STREAM 1",
		"PRIORITY_UPDATE":        "PRIORITY_UPDATE",
	}
	const acked, late = 500 * time.Millisecond, 2 * time.Second
	for ending, begin := range map[string]string{ // of streams that the server ends before the client does
		"response":        "POST 1",
		"panic":           "POST 1 /panic",
		"panics":          "POST 1 /panic, POST 3 /panic",
		"write deadline":  "POST 1 /deadline",
		"refused":         "POST 1 /%zz",
		"malformed":       "POST 1 connection=close",
		"error of stream": "POST 1 /read, WINDOW_UPDATE 1 2147483647",
	} {
		for name, frames := range sent {
			for _, after := range []time.Duration{0, acked, late} {
				t.Run(ending+"/"+name+"/"+after.String(), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := openPeer(t, nil, endEarly)
						p.serve(begin)
						if p.sleep(after); after == acked {
							p.serve("ACK 1")
						}
						testkit.Matches(t, p.rest(), "RST_STREAM| end", "before the frames the server has sent")
						p.serve(frames + ", GET 5")
						got := p.rest()
						testkit.Contains(t, got, "HEADERS 200, DATA no end")
						testkit.Lacks(t, got, "GOAWAY")
						testkit.Between(t, strings.Count(got, "RST_STREAM"), 0, 1, "resets")
						p.sleep(time.Second)
					})
				})
			}
		}
	}
}

// The server or the client announces the end of a session. Requests that the client has sent before
// it knew of the end are served; frames of later ones are no errors (RFC 9113, 6.8). The session ends
// with its last stream, however that ends.
func TestSessionsEndWithTheirLastStream(t *testing.T) {
	const announced, last, response = "GOAWAY NO_ERROR, PING, ", "GOAWAY NO_ERROR", "HEADERS 200, DATA no end"
	for name, c := range map[string]struct{ steps, want string }{
		"acknowledged": {"shutdown; GET 1, ACK shutdown, GET 3", announced + last + ", " + response},
		"unacknowledged": {"POST 1 /read; shutdown; 2s; shutdown; POST 3, DATA 3 body, WINDOW_UPDATE 3 100, " +
			"RST_STREAM 3, DATA 1 body end", announced + last + ", " + response},
		"by the client": {"POST 1 /read, GOAWAY; DATA 1 x end", last + ", " + response},
		"reset":         {"shutdown; GET 1, ACK shutdown, RST_STREAM 1", announced + last},
		"early response": {"POST 1; shutdown; ACK shutdown; 100ms; ACK 1",
			response + ", " + announced + last + ", PING, RST_STREAM NO_ERROR"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := openPeer(t, nil, endEarly)
			p.play(c.steps)
			p.wantRest(c.want)
			testkit.Equal(t, p.ended && p.session.phase == phaseEnded, true, name, "in the end")
		})
	}
}

// The preface and heads must arrive in time. A session that has ended, or whose client broke the
// protocol, closes its connection although the client reads nothing and no setting limits that.
func TestConnectionsEndInTime(t *testing.T) {
	for steps, want := range map[string]time.Duration{
		"":                               30 * time.Second, // behind the preface
		"HEADERS 1; 10s; CONTINUATION 1": 20 * time.Second,
		"GET 1; GOAWAY":                  30 * time.Second,
		"WINDOW_UPDATE 0 0":              GoAwayTime,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t, nil, hello)
			if steps == "" {
				p.input.WriteString(preface)
			} else {
				p.open()
				p.accepts = 0
			}
			p.play(steps)
			p.wantExpiry(want, true)
		})
	}
}

// wantExpiry fails the test unless WaitDeadline is after a duration, and Expire then closes the
// connection or does not.
func (p *peer) wantExpiry(d time.Duration, closes bool) {
	p.Helper()
	testkit.Equal(p, time.Until(p.session.WaitDeadline()), d, "the deadline")
	time.Sleep(d)
	testkit.Equal(p, p.session.Expire(), closes, "the connection is closed after", d)
}

// A client that receives its last response slowly receives all of it, also if the session ends
// meanwhile, or would if it were idle. An idle session ends with GOAWAY.
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
					p.send("GOAWAY")
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
					p.wantExpiry(time.Minute, false) // the client has time to read the last frame
				}
				testkit.Equal(t, p.ended, true)
				p.wantExpiry(time.Second, true)
				got := p.rest()
				testkit.Contains(t, got, " end")
				testkit.Contains(t, got, "GOAWAY NO_ERROR")
			})
		})
	}
}

func TestSilentClientReceivesPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 3 * time.Second}
		p := openPeer(t, set, hello)
		p.wantExpiry(5*time.Second, false)
		p.wantRest("PING")
		p.exchange("ACK is alive", "")
		p.wantExpiry(5*time.Second, false) // the client has responded
		p.wantExpiry(3*time.Second, true)  // and not again
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
			p.runReady()()
			if deadline > 0 {
				want = deadline
			}
			testkit.Equal(t, time.Since(start), want)
			testkit.Is(t, err, os.ErrDeadlineExceeded)
			testkit.Is(t, ended, context.Canceled, "the context")
			synctest.Wait() // for the deadline's goroutine, which sends
			testkit.Equal(t, p.pending(), 0, "bytes count as output")
			p.wantRest("HEADERS 200, RST_STREAM INTERNAL_ERROR")
		})
	}
}

// A deadline that another goroutine sets replaces that of a Write that waits, also if its timer comes
// early, because the clock was set back.
func TestWriteDeadlineIsReplacedWhileWriteWaits(t *testing.T) {
	const sendTimeout = 7 * time.Second
	for _, test := range []struct{ first, second, want time.Duration }{ // deadlines, from the start; 0 for none
		{0, 5 * time.Second, 5 * time.Second}, {6 * time.Second, 5 * time.Second, 5 * time.Second},
		{3 * time.Second, 5 * time.Second, 5 * time.Second}, {3 * time.Second, 0, sendTimeout},
		{3 * time.Second, time.Millisecond, time.Second}, // passed
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var p *peer
			p = newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
				w.(connection.SendTimer).SetSendTimeout(sendTimeout)
				set := func(after time.Duration) {
					at := time.Time{}
					if after > 0 {
						at = start.Add(after)
					}
					testkit.Must(t, http.NewResponseController(w).SetWriteDeadline(at))
				}
				set(test.first)
				s, st := p.session, p.session.streams[1]
				time.AfterFunc(time.Second, func() {
					set(test.second)
					s.mu.Lock()
					defer s.mu.Unlock()
					if st.timer != nil {
						st.timer.Reset(0)
					}
				})
				_, err := w.Write(make([]byte, 10000))
				testkit.Is(t, err, os.ErrDeadlineExceeded, test)
				testkit.Equal(t, time.Since(start), test.want, test)
			})
			p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			p.get(1)
			p.receive()
			p.runReady()()
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
		p.wantExpiry(time.Minute, false) // the handler has lifted WriteTimeout
		p.accepts = -1
		p.session.Flush()
		p.accepts = 1000
		p.send("POST 3")
		p.pump()
		p.wantExpiry(3*time.Second, true)
	})
}
