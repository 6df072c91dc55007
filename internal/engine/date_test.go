package engine

import (
	"net/http"
	"testing"
	"time"
)

func TestDateFollowsTheClock(t *testing.T) {
	var d dateCache
	start := time.Date(2026, 11, 21, 23, 59, 58, 0, time.FixedZone("x", 3600))
	for i := range 40 {
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		if got, want := d.text(now), now.UTC().Format(http.TimeFormat); got != want {
			t.Errorf("at %v: %s, want %s", now, got, want)
		}
	}
}

func BenchmarkDate(b *testing.B) {
	now := time.Now()
	b.Run("cached", func(b *testing.B) {
		var d dateCache
		for b.Loop() {
			_ = d.text(now)
		}
	})
	b.Run("formatted", func(b *testing.B) {
		for b.Loop() {
			_ = now.UTC().Format(http.TimeFormat)
		}
	})
}
