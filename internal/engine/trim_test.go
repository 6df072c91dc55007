package engine

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestTrimmerWaitsForRest(t *testing.T) {
	n := new(atomic.Int64)
	trim := trimmer{handshakes: n}
	n.Store(leastHandshakes - 1)
	if trim.mayWait() {
		t.Error("it waits after few handshakes")
	}
	n.Add(1)
	if !trim.mayWait() {
		t.Error("it does not wait after many handshakes")
	}
	collected := time.Now()
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"at first", func() {}, false},
		{"after nothing", func() {}, true},
		{"after a handshake", func() { n.Add(1) }, false},
		{"after a collection", func() { collected = collected.Add(1) }, false},
		{"after nothing, again", func() {}, true},
	} {
		if step.do(); trim.look(collected) != step.want {
			t.Errorf("%s rests is %v", step.what, !step.want)
		}
	}
	const most = (leastHandshakes + 1) * heapPerHandshake
	if !trim.pays(most) || trim.pays(most+1) {
		t.Error("the limit of the heap's size is wrong")
	}
	if trim.trimmed = n.Load(); trim.mayWait() || trim.pays(1) {
		t.Error("the same handshakes count again")
	}
}

// After many handshakes a server that rests returns free memory to the system, once.
func TestMemoryIsReturnedAfterHandshakes(t *testing.T) {
	if !collectorHasDefaults() {
		t.Skip("GOGC or GOMEMLIMIT is set")
	}
	unreturned := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapIdle - m.HeapReleased
	}
	const garbage, many = 64 << 20, 1 << 20
	r := reserve{trimmer: trimmer{handshakes: new(atomic.Int64)}}
	r.retain(0)
	defer r.release()
	func() {
		var kept [][]byte
		for range garbage >> 20 {
			kept = append(kept, bytes.Repeat([]byte{1}, 1<<20))
		}
		runtime.KeepAlive(kept)
	}()
	runtime.GC()
	runtime.GC()
	before := unreturned()
	r.trimmer.handshakes.Store(many)
	runtime.GC()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		r.mu.Lock()
		isTrimmed := r.trimmer.trimmed == many
		r.mu.Unlock()
		if isTrimmed && unreturned() < before/4 {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("trimmed is %v; %d MB of %d are not returned", isTrimmed, unreturned()>>20, before>>20)
		}
	}
}
