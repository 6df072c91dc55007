package server

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestCollectorIsSpared(t *testing.T) {
	for user, isSpared := range map[string]bool{"": true, "100": false} {
		t.Setenv("GOGC", user)
		goal := func() int {
			runtime.GC()
			now := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
			metrics.Read(now)
			return int(now[0].Value.Uint64())
		}
		before := goal()
		end := spareCollector()
		testkit.Equal(t, goal() > before+spareHeap, isSpared, "GOGC:", user)
		end()
	}
}
