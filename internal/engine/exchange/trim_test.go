package exchange

import (
	"bytes"
	"runtime"
	"testing"
	"time"
)

// After many handshakes a server that rests returns free memory to the system, once.
func TestMemoryIsReturnedAfterHandshakes(t *testing.T) {
	s := new(ServerState)
	for range leastHandshakes - 1 {
		s.CountHandshake()
	}
	if s.awaitsRest.Load() {
		t.Error("the server awaits a rest after few handshakes")
	}
	const garbage = 16 << 20
	func() {
		var kept [][]byte
		for range garbage >> 20 {
			kept = append(kept, bytes.Repeat([]byte{1}, 1<<20))
		}
		runtime.KeepAlive(kept)
	}()
	unreturned := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapIdle - m.HeapReleased
	}
	runtime.GC()
	runtime.GC()
	before := unreturned()
	s.CountHandshake()
	for start := time.Now(); s.trimmedAt.Load() != leastHandshakes || unreturned() > before/4; {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d MB of %d are not returned", unreturned()>>20, before>>20)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if s.CountHandshake(); s.awaitsRest.Load() {
		t.Error("the same handshakes count again")
	}
}
