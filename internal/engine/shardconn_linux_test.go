package engine

import (
	"testing"
	"time"
)

// BenchmarkIdleBound bounds how long a connection waits: by an instant that the sweep
// finds, and by a timer of its own.
func BenchmarkIdleBound(b *testing.B) {
	b.Run("sweep", func(b *testing.B) {
		b.ReportAllocs()
		g := &group{epoch: time.Now()}
		k := &shardConn{place: &placement{shard: &shard{group: g}}}
		for b.Loop() {
			k.setWaitDeadline(g.now() + instant(time.Hour))
		}
	})
	b.Run("timer", func(b *testing.B) {
		b.ReportAllocs()
		timer := time.AfterFunc(time.Hour, func() {})
		defer timer.Stop()
		for b.Loop() {
			timer.Reset(time.Hour)
		}
	})
}
