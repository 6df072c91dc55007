package h2_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
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
	for st := p.session.Next(); st != nil; st = p.session.Next() {
		go func() {
			st.Run(nil, 0)
			st.Settle()
		}()
	}
	p.session.Flush()
	synctest.Wait()
}

func (p *peer) acknowledge() {
	p.framer.WritePing(true, [8]byte([]byte("response")))
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
				p := newPeer(t, &http.HTTP2Config{MaxReceiveBufferPerStream: 1000}, endEarly)
				p.open()
				p.upload1("/")
				p.serveAll()
				p.wantRest("HEADERS 200, DATA no end")
				c.steps(p)
				p.serveAll()
				p.wantRest(c.want)
				if p.sleep(5 * time.Second); p.session.HoldsStream() {
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
						p := newPeer(t, nil, endEarly)
						p.open()
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

// That also applies to as many uploads at once as the client may begin.
func TestFramesAfterManyEarlyResponsesAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil, endEarly)
		p.open()
		const uploads = 250
		for range 3 {
			first := 2*uint32(p.started.Load()) + 1
			for i := range uint32(uploads) {
				p.post(first+2*i, "trailer", "sum")
			}
			p.serveAll()
			for i := range uint32(8 * uploads) {
				p.framer.WriteData(first+2*(i%uploads), false, make([]byte, 200))
			}
			p.request(first, true, "sum", "1")
			p.sleep(100 * time.Millisecond)
			p.acknowledge()
		}
		got := p.rest()
		if strings.Contains(got, "GOAWAY") || strings.Count(got, "HEADERS 200") != 3*uploads {
			t.Errorf("the server has sent %.200s ... %s", got, got[max(0, len(got)-100):])
		}
	})
}

// A request that is refused while the session ends does not keep the session in memory.
func TestRefusalsOfAnEndedSessionEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil, endEarly)
		p.open()
		p.session.Closed()
		p.session.RefuseRequest(1)
		p.sleep(time.Minute)
		if p.session.HoldsStream() {
			t.Error("the stream is still open")
		}
	})
}
