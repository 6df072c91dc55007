package shard

import (
	"testing"
	"time"
)

// BenchmarkIdleBound compares two idle timeouts: a deadline that the sweep checks, and a timer for
// each connection.
func BenchmarkIdleBound(b *testing.B) {
	b.Run("sweep", func(b *testing.B) {
		b.ReportAllocs()
		g := &Group{epoch: time.Now()}
		k := newShardConn(&placement{shard: &shard{group: g}}, 0, "")
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
