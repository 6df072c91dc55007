package engine_test

import (
	"crypto/tls"
	"io"
	"maps"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

// flood is what a hostile client repeats.
type flood struct {
	times int                              // more than suffice to end the connection
	begin func(r *rawHTTP2)                // sends what precedes; nil for nothing
	again func(r *rawHTTP2, stream uint32) // with a new stream identifier each time
}

// http2Floods are the classes of frames that end a connection with ENHANCE_YOUR_CALM.
func http2Floods() map[string]flood {
	get := func(r *rawHTTP2, id uint32) { r.open(id, http.MethodGet, "/", true) }
	upload := func(r *rawHTTP2) { r.open(1, http.MethodPost, "/upload", false) }
	floods := map[string]func(r *rawHTTP2, id uint32){
		"rapid reset":      func(r *rawHTTP2, id uint32) { get(r, id); r.WriteRSTStream(id, http2.ErrCodeCancel) },
		"made you reset":   func(r *rawHTTP2, id uint32) { get(r, id); r.WriteWindowUpdate(id, 1<<31-1) },
		"SETTINGS":         func(r *rawHTTP2, _ uint32) { r.WriteSettings() },
		"PING":             func(r *rawHTTP2, _ uint32) { r.WritePing(false, [8]byte{}) },
		"PING ack":         func(r *rawHTTP2, _ uint32) { r.WritePing(true, [8]byte{}) },
		"PRIORITY":         func(r *rawHTTP2, id uint32) { r.WritePriority(id, http2.PriorityParam{}) },
		"PRIORITY_UPDATE":  func(r *rawHTTP2, _ uint32) { r.WriteRawFrame(0x10, 0, 0, []byte("\x00\x00\x00\x01u=1")) },
		"unknown frames":   func(r *rawHTTP2, _ uint32) { r.WriteRawFrame(0xfa, 0, 0, nil) },
		"window of stream": func(r *rawHTTP2, _ uint32) { r.WriteWindowUpdate(1, 1) },
		"window":           func(r *rawHTTP2, _ uint32) { r.WriteWindowUpdate(0, 1<<8) },
		"empty DATA":       func(r *rawHTTP2, _ uint32) { r.WriteData(1, false, nil) },
		"padded DATA":      func(r *rawHTTP2, _ uint32) { r.WriteDataPadded(1, false, []byte("x"), make([]byte, 100)) },
		"header bomb":      bomb,
	}
	all := make(map[string]flood, len(floods))
	for name, again := range floods {
		all[name] = flood{usualFrames, upload, again}
	}
	for _, name := range []string{"rapid reset", "made you reset", "header bomb"} {
		all[name] = flood{usualFrames, nil, floods[name]}
	}
	all["small DATA"] = flood{200_000, upload, func(r *rawHTTP2, _ uint32) { r.WriteData(1, false, []byte("x")) }}
	all["CONTINUATION"] = flood{500, func(r *rawHTTP2) {
		r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
	}, func(r *rawHTTP2, _ uint32) { r.WriteContinuation(1, false, nil) }}
	return all
}

// bomb sends a head that repeats one large field.
func bomb(r *rawHTTP2, id uint32) {
	fields := []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/"}
	r.request(id, true, append(fields, slices.Repeat([]string{"x", strings.Repeat("x", 3000)}, 100)...)...)
}

// bytes returns what the client sends.
func (f flood) bytes(t *testing.T) []byte {
	r := newRawHTTP2(t, nil)
	if f.begin != nil {
		f.begin(r)
	}
	for i := range f.times {
		f.again(r, uint32(2*i+3))
	}
	return r.output.Bytes()
}

// hostileConns returns how many connections attack, and how many of them at the same time. Those
// that send more than usual are fewer.
func hostileConns(frames int) (all, together int) {
	if slow() {
		all = 10_000 * usualFrames / max(frames, usualFrames)
		return all, min(all, 2_500)
	}
	return 4, 4
}

// usualFrames exceeds what ends a connection if each frame costs a unit.
const usualFrames = 5000

// A flood of any class ends its connection and no other one, over each kind of connection. The
// server holds little memory meanwhile.
func TestHTTP2FloodsEndTheirConnections(t *testing.T) {
	for name, f := range http2Floods() {
		t.Run(name, func(t *testing.T) {
			content := f.bytes(t)
			for _, mode := range slices.Sorted(maps.Keys(http2Modes)) {
				t.Run(mode, func(t *testing.T) {
					var calmed, other atomic.Int64
					s := newHTTP2Site(t, "tare", mode, &http.Server{Handler: http.HandlerFunc(floodedHandler),
						HTTP2: &http.HTTP2Config{CountError: func(what string) {
							switch {
							case what == "conn_ENHANCE_YOUR_CALM":
								calmed.Add(1)
							case strings.HasPrefix(what, "conn_"):
								other.Add(1)
							}
						}}})
					s.tickets = tls.NewLRUClientSessionCache(1)
					all, together := hostileConns(f.times)
					for sent := 0; sent < all; sent += together {
						s.attack(content, together)
					}
					if n := calmed.Load(); n != int64(all) || other.Load() > 0 {
						t.Errorf("%d of %d connections have ended with ENHANCE_YOUR_CALM, and %d with other errors",
							n, all, other.Load())
					}
				})
			}
		})
	}
}

func floodedHandler(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	io.WriteString(w, "hello")
}

// attack sends content over n connections and waits until they have ended. Meanwhile another client
// must receive responses, and the server must hold little memory.
func (s *http2Site) attack(content []byte, n int) {
	s.Helper()
	var attackers sync.WaitGroup
	over := make(chan struct{})
	before := liveHeap()
	for range n {
		attackers.Go(func() {
			c, err := s.dial()
			if err != nil {
				s.Error(err)
				return
			}
			defer c.Close()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, c)
			}()
			for rest := content; len(rest) > 0; {
				sent, err := c.Write(rest[:min(len(rest), 64<<10)])
				if rest = rest[sent:]; err != nil {
					break
				}
			}
			<-ended
		})
	}
	go func() {
		attackers.Wait()
		close(over)
	}()
	limit := before + 64<<20 + uint64(n)*(256<<10)
	for isOver := false; !isOver; {
		if got := s.get("/"); got != "hello" {
			s.Fatalf("another client has received %q", got)
		}
		if held := liveHeap(); held > limit {
			s.Fatalf("%d connections hold %d MB", n, held>>20)
		}
		select {
		case <-over:
			isOver = true
		default:
		}
	}
}

// liveHeap returns how much memory is in use.
func liveHeap() uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
