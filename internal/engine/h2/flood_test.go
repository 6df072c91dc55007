package h2

import (
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/engine/exchange"
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
				BlockFragment: p.encode(head("GET", "/")...)})
			for range 50 {
				p.framer.WriteContinuation(id, false, nil)
			}
			p.framer.WriteContinuation(id, true, nil)
		},
		"unknown frames": func(p *peer, _ uint32) { p.framer.WriteRawFrame(0xfa, 0, 0, nil) },
		"PRIORITY_UPDATE": func(p *peer, _ uint32) {
			p.framer.WriteRawFrame(0x10, 0, 0, []byte("\x00\x00\x00\x01u=1"))
		},
		"refused heads": func(p *peer, id uint32) { p.request(id, true, head("GET", "/%zz")...) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // whose clock stands still, so that the ledger does not grow
				p := openPeer(t, nil, hello)
				p.wantCalm(5000, func(id uint32) bool {
					send(p, id)
					return p.pump()
				})
			})
		})
	}
}

// wantCalm fails unless a flood, of which send sends a part, ends the connection.
func (p *peer) wantCalm(most int, send func(id uint32) (alive bool)) {
	p.Helper()
	for n := range most {
		if !send(uint32(2*n + 1)) {
			if got := p.rest(); !strings.HasSuffix(got, "GOAWAY ENHANCE_YOUR_CALM") || !p.ended {
				p.Errorf("after %d the server has sent %s; closed %v", n, got[max(0, len(got)-100):], p.ended)
			}
			return
		}
		p.discard()
	}
	p.Error("the session continues")
}

// A head block without an end is limited in bytes and in frames.
func TestContinuationFloodEndsTheConnection(t *testing.T) {
	for name, size := range map[string]int{"empty": 0, "full": 16384} {
		t.Run(name, func(t *testing.T) {
			p := openPeer(t, nil, hello)
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(":method", "GET")})
			for range 200 {
				p.framer.WriteContinuation(1, false, make([]byte, size))
			}
			if p.pump() {
				t.Fatal("the session continues")
			}
			p.wantRest("GOAWAY ENHANCE_YOUR_CALM")
			if n := p.buffered(); n > 3<<20 {
				t.Errorf("%d bytes are buffered", n)
			}
		})
	}
}

// A small block that stands for a large head costs no memory beyond the limit.
func TestHPACKBombIsRefused(t *testing.T) {
	p := openPeer(t, nil, hello)
	value := strings.Repeat("x", 4000)
	p.get(1, "x-bomb", value)
	p.pump()
	p.rest()
	fields := head("GET", "/")
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

// A client that reads nothing cannot make the server store replies or responses without limit, even
// if none of its frames costs a unit of the ledger.
func TestPeerThatNeverReadsIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		begin   func(p *peer) // may be nil
		send    func(p *peer, id uint32)
	}{
		"PING": {hello, nil, func(p *peer, _ uint32) { p.framer.WritePing(false, [8]byte{}) }},
		"windows": {func(http.ResponseWriter, *http.Request) {},
			func(p *peer) { // a handler that does not read leaves a window of ten bytes
				p.post(1)
				for range 63 {
					p.framer.WriteData(1, false, make([]byte, 16384))
				}
				p.framer.WriteData(1, false, make([]byte, 16384-10))
				if p.received() == nil {
					t.Fatal("no stream is ready")
				}
				p.post(3)
				p.pump()
			}, func(p *peer, _ uint32) { p.framer.WriteData(3, false, make([]byte, 5)) }},
		"aborted responses": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil,
			func(p *peer, id uint32) { p.get(id) }},
		"refused heads": {hello, nil, func(p *peer, id uint32) { p.request(id, true, head("GET", "/%zz")...) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPeer(t, nil, test.handler)
			p.accepts = 0
			if test.begin != nil {
				test.begin(p)
			}
			for id := uint32(5); ; id += 2 {
				test.send(p, id)
				alive := p.pump()
				if n := p.pending(); n > 200<<10 {
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

// Streams above the limit are refused. Handlers that still run although their streams were reset
// count.
func TestStreamsAboveTheLimitAreRefused(t *testing.T) {
	p := openPeer(t, &http.HTTP2Config{MaxConcurrentStreams: 2}, hello)
	for _, id := range []uint32{1, 3, 5} {
		p.get(id)
	}
	running := p.received()
	p.wantRest("RST_STREAM REFUSED_STREAM")
	p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
	p.framer.WriteRSTStream(3, http2.ErrCodeCancel)
	p.get(7)
	p.get(9)
	p.receive()
	if n := p.session.running; n > 2 {
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
	set := &http.HTTP2Config{MaxReceiveBufferPerStream: 1000}
	for name, test := range map[string]struct {
		fields []string
		data   []int
		want   string
	}{
		"stream window":  {nil, []int{600, 600}, "RST_STREAM FLOW_CONTROL_ERROR"},
		"length exceeds": {[]string{"content-length", "3"}, []int{4}, "RST_STREAM PROTOCOL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPeer(t, set, hello)
			p.post(1, test.fields...)
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
		p := openPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength == 0 {
				io.WriteString(w, "hello")
			}
		})
		p.request(1, false, ":method", "POST", ":scheme", "http", ":path", "/")
		p.input.Write(frames)
		p.pump()
		p.input.Write(frames)
		p.pump()
		p.rest()
		if n := p.pending() + p.buffered(); n > 1<<20 {
			t.Errorf("%d bytes are buffered", n)
		}
	})
}

// Frames of an open stream that carry little or nothing are a flood.
func TestFloodsOfAStreamEndTheConnection(t *testing.T) {
	padding := make([]byte, 255)
	for name, send := range map[string]func(*peer){
		"DATA of one byte":         func(p *peer) { p.framer.WriteData(1, false, []byte("x")) },
		"DATA of two bytes":        func(p *peer) { p.framer.WriteData(1, false, []byte("xx")) },
		"padded DATA":              func(p *peer) { p.framer.WriteDataPadded(1, false, []byte("x"), padding) },
		"empty DATA":               func(p *peer) { p.framer.WriteData(1, false, nil) },
		"DATA without content":     func(p *peer) { p.framer.WriteDataPadded(1, false, nil, padding) },
		"WINDOW_UPDATE":            func(p *peer) { p.framer.WriteWindowUpdate(1, 1) },
		"WINDOW_UPDATE, large":     func(p *peer) { p.framer.WriteWindowUpdate(1, 1<<10) },
		"DATA of a closed stream":  func(p *peer) { p.framer.WriteData(3, false, make([]byte, 16384)) },
		"empty DATA of another":    func(p *peer) { p.framer.WriteData(3, false, nil) },
		"DATA of unserved streams": func(p *peer) { p.framer.WriteData(5, false, []byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // whose clock stands still, so that the ledger does not grow
				p := openPeer(t, &http.HTTP2Config{MaxConcurrentStreams: 1}, hello)
				p.post(1)
				p.post(3) // is refused, and so is the next one
				p.post(5)
				p.receive()
				p.rest()
				p.wantCalm(5000, func(uint32) bool {
					for range 100 {
						send(p)
					}
					return p.receive()
				})
			})
		})
	}
}

// Honest clients may send many frames of the same kinds.
func TestHonestClientsAreNoFlood(t *testing.T) {
	for name, send := range map[string]func(p *peer, id uint32) (again bool){
		"small messages of gRPC": func(p *peer, id uint32) bool {
			p.post(id)
			for range 100_000 {
				p.framer.WriteData(id, false, []byte("\x00\x00\x00\x00\x01x"))
			}
			return false
		},
		"upload in small pieces": func(p *peer, id uint32) bool {
			p.post(id)
			for range 50_000 {
				p.framer.WriteData(id, false, []byte("x"))
			}
			return false
		},
		"window of each stream": func(p *peer, id uint32) bool { // as Firefox
			p.get(id)
			p.framer.WriteWindowUpdate(id, 12<<20)
			return id < 2*5000
		},
		"padded uploads": func(p *peer, id uint32) bool {
			p.post(id)
			p.framer.WriteDataPadded(id, true, make([]byte, 500), make([]byte, 255))
			return id < 2*5000
		},
		"updates of both windows for each response": func(p *peer, id uint32) bool {
			p.get(id)
			p.framer.WriteWindowUpdate(id, 5)
			p.framer.WriteWindowUpdate(0, 5)
			return id < 2*5000
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
			for id := uint32(1); ; id += 2 {
				again := send(p, id)
				if !p.pump() {
					t.Fatalf("after %d requests the server has sent %s", id/2, p.rest())
				}
				p.discard()
				if !again {
					return
				}
			}
		})
	}
}

// A client may update its windows after each read of a response, also if it reads little at a time,
// and only after the whole response has arrived.
func TestUpdatesOfLargeResponseAreNoFlood(t *testing.T) {
	const size, piece = 4 << 20, 512
	p := newPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size)) })
	p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: size})
	p.framer.WriteWindowUpdate(0, size)
	p.get(1)
	p.pump()
	if n := p.output.Len(); n < size {
		t.Fatalf("the server has sent %d bytes", n)
	}
	p.discard()
	for range size / piece {
		p.framer.WriteWindowUpdate(1, piece)
		p.framer.WriteWindowUpdate(0, piece)
	}
	if !p.pump() {
		t.Errorf("the server has sent %s", p.rest())
	}
}

// respond makes n streams, from an identifier on, send responses that are larger than the client's
// windows. Each handler has a goroutine; the result waits for them.
func (p *peer) respond(from uint32, n int) (wait func()) {
	for i := range n {
		p.get(from + uint32(2*i))
	}
	p.receive()
	return p.runReady()
}

// A client that opens the windows of many streams by one byte, with one frame, makes all of them
// send a small piece. It pays for each.
func TestFrameThatOpensManyWindowsPaysForEach(t *testing.T) {
	const streams, most = 50, 100 // a frame costs a unit; so many would be no flood
	for name, open := range map[string]func(p *peer, round uint32){
		"SETTINGS": func(p *peer, round uint32) {
			p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: round})
		},
		"WINDOW_UPDATE": func(p *peer, round uint32) {
			p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: round})
			p.framer.WriteWindowUpdate(0, streams)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 100_000)) })
			p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			var waits []func()
			all := streams
			await := func() {
				for _, wait := range waits {
					wait()
				}
			}
			defer await()
			if name == "SETTINGS" {
				p.framer.WriteWindowUpdate(0, 1<<20)
			} else { // a stream takes all of the connection's window
				p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<16 - 1})
				waits = append(waits, p.respond(1, 1))
				p.awaitWaiting(1)
				all++
				p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			}
			waits = append(waits, p.respond(3, streams))
			for round := uint32(1); ; round++ {
				p.awaitWaiting(all) // none has yet to send what it was granted
				open(p, round)
				if !p.receive() {
					break
				}
				if round > most {
					p.session.Closed()
					t.Fatal("the session continues")
				}
			}
			await() // handlers may send, too
			p.session.Flush()
			if got := p.rest(); !strings.HasSuffix(got, "GOAWAY ENHANCE_YOUR_CALM") {
				t.Errorf("the server ends with %s", got[max(0, len(got)-100):])
			}
		})
	}
}

// Each field of http.HTTP2Config has an effect, except those of clients and of a dynamic table for
// the fields of responses, which the server does not use.
func TestEveryFieldOfHTTP2ConfigIsRead(t *testing.T) {
	const valid = 1 << 17 // for each integer; also a time
	without := NewConfig(new(exchange.Config), nil, 0)
	for f := range reflect.TypeFor[http.HTTP2Config]().Fields() {
		set := new(http.HTTP2Config)
		v := reflect.ValueOf(set).Elem().FieldByIndex(f.Index)
		switch {
		case f.Name == "MaxDecoderHeaderTableSize":
			v.SetInt(1)
		case v.CanInt():
			v.SetInt(valid)
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		default:
			v.Set(reflect.MakeFunc(f.Type, func([]reflect.Value) []reflect.Value { return nil }))
		}
		isRead := !reflect.DeepEqual(NewConfig(new(exchange.Config), set, 0), without)
		if want := f.Name != "StrictMaxConcurrentRequests" && f.Name != "MaxEncoderHeaderTableSize"; isRead != want {
			t.Errorf("%s is read: %v", f.Name, isRead)
		}
	}
}
