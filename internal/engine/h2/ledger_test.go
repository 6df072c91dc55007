package h2_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// post opens a stream with a request whose body follows.
func (p *peer) post(id uint32, fields ...string) {
	head := []string{":method", "POST", ":scheme", "http", ":authority", "a", ":path", "/"}
	p.request(id, false, append(head, fields...)...)
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
		"DATA of unserved streams": func(p *peer) { p.framer.WriteData(5, false, []byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, &http.HTTP2Config{MaxConcurrentStreams: 1}, hello)
			p.open()
			p.post(1)
			p.post(3) // is refused, and so is the next one
			p.post(5)
			p.receive()
			p.session.Flush()
			p.rest()
			const most = 500_000
			for range most / 100 {
				for range 100 {
					send(p)
				}
				if !p.receive() {
					p.session.Flush()
					if got := p.rest(); !strings.HasSuffix(got, "GOAWAY ENHANCE_YOUR_CALM") {
						t.Errorf("the server has sent %s", got)
					}
					return
				}
				p.session.Flush()
				p.discard()
			}
			t.Error("the session continues")
		})
	}
}

// A client cannot make the server send a response in many small pieces.
func TestSillyWindowEndsTheConnection(t *testing.T) {
	p := newPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1<<20)) })
	p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	p.get(1)
	p.receive()
	done := p.runNext()
	sent := 0
	for {
		p.awaitWait()
		p.framer.WriteWindowUpdate(1, 1)
		if !p.receive() {
			break
		}
		p.session.Flush()
		if sent++; sent > 5000 {
			t.Fatal("the session continues")
		}
	}
	<-done
	p.session.Flush()
	if got := p.rest(); !strings.HasSuffix(got, "GOAWAY ENHANCE_YOUR_CALM") {
		t.Errorf("the server ends with %s", got[max(0, len(got)-100):])
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
			p := newPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
			p.open()
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
