package h2_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// A client that causes work without an end, and pays nothing for it, loses its connection.
func TestFloodsEndTheConnection(t *testing.T) {
	for name, send := range map[string]func(p *peer, id uint32){
		"rapid reset": func(p *peer, id uint32) {
			p.get(id)
			p.framer.WriteRSTStream(id, http2.ErrCodeCancel)
		},
		"made you reset, by window": func(p *peer, id uint32) {
			p.get(id)
			p.framer.WriteWindowUpdate(id, 1<<31-1)
		},
		"made you reset, by head": func(p *peer, id uint32) { p.get(id, "connection", "close") },
		"made you reset, by data": func(p *peer, id uint32) { p.get(id); p.framer.WriteData(id, true, nil) },
		"SETTINGS":                func(p *peer, _ uint32) { p.framer.WriteSettings() },
		"PING":                    func(p *peer, _ uint32) { p.framer.WritePing(false, [8]byte{}) },
		"PRIORITY":                func(p *peer, id uint32) { p.framer.WritePriority(id, http2.PriorityParam{}) },
		"PING ack":                func(p *peer, _ uint32) { p.framer.WritePing(true, [8]byte{}) },
		"ack of no PING":          func(p *peer, _ uint32) { p.framer.WritePing(true, [8]byte([]byte("shutdown"))) },
		"WINDOW_UPDATE":           func(p *peer, _ uint32) { p.framer.WriteWindowUpdate(0, 1) },
		"WINDOW_UPDATE, large":    func(p *peer, _ uint32) { p.framer.WriteWindowUpdate(0, 1000) },
		"HPACK bomb": func(p *peer, id uint32) {
			p.get(id, slices.Repeat([]string{"x", strings.Repeat("x", 3000)}, 100)...)
		},
		"small CONTINUATION": func(p *peer, id uint32) {
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true,
				BlockFragment: p.encode(":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/")})
			for range 50 {
				p.framer.WriteContinuation(id, false, nil)
			}
			p.framer.WriteContinuation(id, true, nil)
		},
		"unknown frames": func(p *peer, _ uint32) { p.framer.WriteRawFrame(0xfa, 0, 0, nil) },
		"PRIORITY_UPDATE": func(p *peer, _ uint32) {
			p.framer.WriteRawFrame(0x10, 0, 0, []byte("\x00\x00\x00\x01u=1"))
		},
		"refused heads": func(p *peer, id uint32) { p.request(id, true, refusedHead()...) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, nil, hello)
			p.open()
			sent := 0
			for id := uint32(1); ; id += 2 {
				if sent++; sent > 5000 {
					t.Fatal("the session continues")
				}
				send(p, id)
				if !p.pump() {
					break
				}
			}
			frames := p.rest()
			if !strings.HasSuffix(frames, "GOAWAY ENHANCE_YOUR_CALM") {
				t.Errorf("after %d the server has sent %s", sent, frames[max(0, len(frames)-100):])
			}
			if !p.ended {
				t.Error("the connection is not closed")
			}
		})
	}
}

// A head block without an end is limited in bytes and in frames.
func TestContinuationFloodEndsTheConnection(t *testing.T) {
	for name, size := range map[string]int{"empty": 0, "full": 16384} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, nil, hello)
			p.open()
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(":method", "GET")})
			for range 200 {
				p.framer.WriteContinuation(1, false, make([]byte, size))
			}
			if p.pump() {
				t.Fatal("the session continues")
			}
			p.wantRest("GOAWAY ENHANCE_YOUR_CALM")
			if n := p.session.Buffered(); n > 3<<20 {
				t.Errorf("%d bytes are buffered", n)
			}
		})
	}
}

// A small block that stands for a large head costs no memory beyond the limit.
func TestHPACKBombIsRefused(t *testing.T) {
	p := newPeer(t, nil, hello)
	p.open()
	value := strings.Repeat("x", 4000)
	p.get(1, "x-bomb", value)
	p.pump()
	p.rest()
	fields := []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/"}
	for range 4000 {
		fields = append(fields, "x-bomb", value)
	}
	p.request(3, true, fields...)
	if !p.pump() {
		t.Fatal("the session has ended")
	}
	if p.started.Load() != 1 {
		t.Error("a handler has received the bomb")
	}
	p.wantRest("HEADERS 431, DATA 431 Request Header F end")
	p.get(5) // the decoder's table is right
	p.pump()
	p.wantRest("HEADERS 200, DATA hello end")
}

// A client that reads nothing cannot make the server store replies or responses without limit.
func TestPeerThatNeverReadsIsBounded(t *testing.T) {
	p := newPeer(t, nil, hello)
	p.open()
	p.accepts = 0
	for alive := true; alive; alive = p.pump() {
		p.framer.WritePing(false, [8]byte{})
		if n := p.session.Pending(); n > 200<<10 {
			t.Fatalf("%d bytes wait", n)
		}
	}
	if p.accepts = -1; p.session.WaitDeadline().IsZero() {
		t.Error("the connection stays open")
	}
}

// A client that reads nothing cannot make the server store frames that its own frames cause, even
// if none of them costs a unit of the ledger.
func TestRepliesThatNobodyReadsAreBounded(t *testing.T) {
	post := []string{":method", "POST", ":scheme", "http", ":path", "/"}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		begin   func(p *peer)
		send    func(p *peer, id uint32)
	}{
		"windows": {
			handler: func(http.ResponseWriter, *http.Request) {},
			begin: func(p *peer) { // a handler that does not read leaves a window of ten bytes
				p.request(1, false, post...)
				for range 63 {
					p.framer.WriteData(1, false, make([]byte, 16384))
				}
				p.framer.WriteData(1, false, make([]byte, 16384-10))
				p.receive()
				if p.session.Next() == nil {
					t.Fatal("no stream is ready")
				}
				p.request(3, false, post...)
				p.pump()
			},
			send: func(p *peer, _ uint32) { p.framer.WriteData(3, false, make([]byte, 5)) },
		},
		"aborted responses": {
			handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			begin:   func(*peer) {},
			send:    func(p *peer, id uint32) { p.get(id) },
		},
		"refused heads": {
			handler: hello,
			begin:   func(*peer) {},
			send:    func(p *peer, id uint32) { p.request(id, true, refusedHead()...) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, nil, test.handler)
			p.open()
			p.accepts = 0
			test.begin(p)
			for id := uint32(5); ; id += 2 {
				test.send(p, id)
				alive := p.pump()
				if n := p.session.Pending(); n > 200<<10 {
					t.Fatalf("%d bytes wait", n)
				}
				if !alive {
					break
				}
			}
			if p.session.WaitDeadline().IsZero() {
				t.Error("the connection stays open")
			}
			p.accepts = -1
			p.session.Flush()
			if got := p.rest(); !strings.HasSuffix(got, "GOAWAY ENHANCE_YOUR_CALM") {
				t.Errorf("the server ends with %s", got[max(0, len(got)-100):])
			}
		})
	}
}

// refusedHead is a head that the server responds to with 400, without a handler.
func refusedHead() []string {
	return []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/%zz"}
}

// A PRIORITY frame of a wrong size is an error of its stream, once, however it arrives.
func TestPriorityOfWrongSizeIsOneError(t *testing.T) {
	for _, size := range []int{0, 4, 6, 1000} {
		for _, isSplit := range []bool{false, true} {
			p := newPeer(t, nil, hello)
			p.open()
			p.framer.WriteRawFrame(http2.FramePriority, 0, 1, make([]byte, size))
			p.get(3)
			if all := strings.Clone(p.input.String()); isSplit {
				p.input.Reset()
				for i := range len(all) {
					p.input.WriteByte(all[i])
					p.pump()
				}
			}
			p.pump()
			p.wantRest("RST_STREAM FRAME_SIZE_ERROR, HEADERS 200, DATA hello end")
		}
	}
}

// Responses that a slow client has yet to receive do not make its next PING a flood.
func TestUnsentResponsesAreNotReplies(t *testing.T) {
	p := newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Large", strings.Repeat("x", 200<<10))
	})
	p.open()
	p.accepts = 0
	p.get(1)
	p.pump()
	p.framer.WritePing(false, [8]byte{})
	if !p.pump() {
		t.Error("the session has ended")
	}
}

// Streams above the limit are refused. Handlers that still run although their streams were reset
// count.
func TestStreamsAboveTheLimitAreRefused(t *testing.T) {
	p := newPeer(t, &http.HTTP2Config{MaxConcurrentStreams: 2}, hello)
	p.open()
	for _, id := range []uint32{1, 3, 5} {
		p.get(id)
	}
	p.receive()
	p.session.Flush()
	p.wantRest("RST_STREAM REFUSED_STREAM")
	running := p.session.Next()
	if running == nil {
		t.Fatal("no stream is ready")
	}
	p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
	p.framer.WriteRSTStream(3, http2.ErrCodeCancel)
	p.get(7)
	p.get(9)
	p.receive()
	p.session.Flush()
	if n := p.session.Running(); n > 2 {
		t.Errorf("%d handlers run or wait", n)
	}
	running.Run(nil, 0)
	running.Settle()
	p.pump()
	p.get(11)
	p.pump()
	if got := p.rest(); !strings.HasSuffix(got, "HEADERS 200, DATA hello end") {
		t.Errorf("the server has sent %s", got)
	}
}

// DATA beyond a window, or beyond Content-Length, ends the stream or the connection. What was
// dropped is returned to the connection's window.
func TestBodiesAreBounded(t *testing.T) {
	post := []string{":method", "POST", ":scheme", "http", ":path", "/"}
	set := &http.HTTP2Config{MaxReceiveBufferPerStream: 1000}
	for name, test := range map[string]struct {
		fields []string
		data   []int
		want   string
	}{
		"stream window":  {post, []int{600, 600}, "RST_STREAM FLOW_CONTROL_ERROR"},
		"length exceeds": {append(post, "content-length", "3"), []int{4}, "RST_STREAM PROTOCOL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, set, hello)
			p.open()
			p.request(1, false, test.fields...)
			for _, n := range test.data {
				p.framer.WriteData(1, false, make([]byte, n))
			}
			p.pump()
			p.wantRest(test.want)
			if p.started.Load() != 0 {
				t.Error("the handler of a reset stream has run")
			}
		})
	}
}

// Random frames neither panic nor make the session hold much memory.
func FuzzSession(f *testing.F) {
	f.Add([]byte(preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" +
		"\x00\x00\x07\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x01a\x40"))
	f.Add([]byte("\x00\x00\x04\x00\x08\x00\x00\x00\x01\x02ab\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, frames []byte) {
		p := newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength == 0 {
				io.WriteString(w, "hello")
			}
		})
		p.open()
		p.request(1, false, ":method", "POST", ":scheme", "http", ":path", "/")
		p.input.Write(frames)
		p.pump()
		p.input.Write(frames)
		p.pump()
		p.rest()
		if n := p.session.Pending() + p.session.Buffered(); n > 1<<20 {
			t.Errorf("%d bytes are buffered", n)
		}
	})
}
