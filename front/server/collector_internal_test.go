package server

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// The collector runs seldom while the heap is small, and as usual when it is large, or when the program
// or its user says how often.
func TestCollectorIsRelaxed(t *testing.T) {
	percent := func() int {
		now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(now)
		return int(now[0].Value.Uint64())
	}
	t.Setenv("GOGC", "")
	leave := relaxCollector()
	testkit.Equal(t, percent() > usualPercent, true, "with a small heap")
	cache := make([]byte, 4*spareHeap)
	collect := func(percentIs func(now int) bool) {
		testkit.WaitFor(t, "GOGC to follow", func() bool {
			runtime.GC()
			return percentIs(percent())
		})
	}
	collect(func(now int) bool { return now == usualPercent })
	runtime.KeepAlive(cache)
	collect(func(now int) bool { return now > usualPercent })
	leave()
	testkit.Equal(t, percent(), usualPercent, "in the end")
	debug.SetGCPercent(50)
	relaxCollector()()
	testkit.Equal(t, percent(), 50, "of the program")
	debug.SetGCPercent(usualPercent)
	t.Setenv("GOGC", "100")
	relaxCollector()()
	testkit.Equal(t, percent(), usualPercent, "of the user")
}
