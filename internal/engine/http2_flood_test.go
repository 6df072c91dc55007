package engine_test

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
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
	}
	all := make(map[string]flood, len(floods))
	for name, again := range floods {
		all[name] = flood{usualFrames, upload, again}
	}
	for _, name := range []string{"rapid reset", "made you reset"} {
		all[name] = flood{usualFrames, nil, floods[name]}
	}
	all["small DATA"] = flood{600_000, upload, func(r *rawHTTP2, _ uint32) { r.WriteData(1, false, []byte("x")) }}
	all["windows of SETTINGS"] = flood{usualFrames, func(r *rawHTTP2) {
		r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		r.WriteWindowUpdate(0, 1<<30)
		for i := range uint32(8) {
			r.open(2*i+1, http.MethodGet, "/write", true)
		}
	}, func(r *rawHTTP2, id uint32) { // opens the windows of all streams by a byte, in several steps
		r.WriteSettings(slices.Repeat([]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: id / 2}}, 10)...)
	}}
	all["header bomb"] = flood{2 * usualFrames, nil, bomb}
	all["padded DATA"] = flood{50_000, upload, floods["padded DATA"]}
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

// usualFrames exceeds what ends a connection if each frame costs a unit, also if the server takes a
// minute to read them.
const usualFrames = 10_000

// hostileConns returns how many connections attack a server at the same time. Those that send more
// than usual are fewer.
func hostileConns(frames int) int {
	const few = 2
	if !testkit.Slow() {
		return few
	}
	n := manyHostileConns / len(http2Modes) * usualFrames / max(frames, usualFrames)
	if testkit.Race {
		return n / raceSlowdown
	}
	return n
}

const (
	// manyHostileConns is how many connections attack in the slow form, all modes together.
	manyHostileConns = 10_000
	// raceSlowdown is how many times fewer they are with the race detector.
	raceSlowdown = 10
)

// A flood of any class ends its connection and no other one, over each kind of connection. In the
// slow form, which runs server and attackers in other processes, the server takes little memory,
// and other clients wait no longer than those of net/http's server.
func TestHTTP2FloodsEndTheirConnections(t *testing.T) {
	testkit.Long(t, "it sends many frames")
	for name, f := range http2Floods() {
		t.Run(name, func(t *testing.T) {
			content := sync.OnceValue(func() []byte { return f.bytes(t) })
			modes := slices.Sorted(maps.Keys(http2Modes))
			if !testkit.Slow() { // each path, and each of TLS and none
				modes = []string{"h2-tls-shard", "h2c-goroutine"}
			}
			for _, mode := range modes {
				t.Run(mode, func(t *testing.T) {
					s, n := newTarget(t, "tare", mode), hostileConns(f.times)
					begun := time.Now()
					ours := s.attack(name, content, n, n, time.Hour)
					if got := s.state(); got.calmed != int64(n) || got.other > 0 {
						t.Errorf("%d of %d connections have ended with ENHANCE_YOUR_CALM, and %d with other errors",
							got.calmed, n, got.other)
					}
					if !testkit.Slow() {
						return
					}
					memory, slack := floodMemory, harmSlack
					if name == "header bomb" {
						memory = bombMemory
					}
					if strings.HasSuffix(mode, "-goroutine") {
						slack *= goroutineFactor
					}
					s.wantMemory(n, memory)
					elapsed := time.Since(begun)
					netHTTP := newTarget(t, "net/http", mode)
					theirs := netHTTP.attack(name, content, math.MaxInt32, n, min(elapsed, longestComparison))
					t.Logf("%d connections in %v; others' p99 is %v, with net/http %v", n, elapsed, ours, theirs)
					if ours > harmFactor*theirs+slack {
						t.Errorf("others' p99 is %v, with net/http %v", ours, theirs)
					}
				})
			}
		})
	}
}

const (
	// floodMemory is how much memory a connection of a flood may take.
	floodMemory = 128 << 10
	// bombMemory is likewise for header bombs: each connection decodes a head of 300 KB.
	bombMemory = 1 << 20
	// goroutineFactor is how many times as much slack there is on the goroutine path, where all
	// connections run at the same time, each with two goroutines and handlers of its own.
	goroutineFactor = 2
	// longestComparison limits how long net/http's server is attacked.
	longestComparison = 10 * time.Second
	// harmFactor and harmSlack limit the p99 of other clients, compared with net/http's. The slack
	// is for other programs on the machine; on shards the p99 was at most 180 ms.
	harmFactor = 2
	harmSlack  = 500 * time.Millisecond
)
