package exchange

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestDateFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d DateCache
		for range 100 {
			if got, want := d.Text(), time.Now().UTC().Format(http.TimeFormat); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			time.Sleep(70 * time.Millisecond)
			synctest.Wait() // for a timer that expires at this instant
		}
	})
}

func BenchmarkDate(b *testing.B) {
	b.Run("cached", func(b *testing.B) {
		var d DateCache
		for b.Loop() {
			_ = d.Text()
		}
	})
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now()
		}
	})
	now := time.Now()
	b.Run("formatted", func(b *testing.B) {
		for b.Loop() {
			_ = now.UTC().Format(http.TimeFormat)
		}
	})
}
