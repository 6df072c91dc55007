package engine

import (
	"net/http"
	"sync/atomic"
	"time"
)

// dateCache holds the Date field's value, which changes once a second. Formatting
// it for each response would take 100 ns; this takes 2 (BenchmarkDate).
type dateCache struct{ last atomic.Pointer[dated] }

type dated struct {
	second int64
	text   string
}

func (d *dateCache) text(now time.Time) string {
	second := now.Unix()
	if last := d.last.Load(); last != nil && last.second == second {
		return last.text
	}
	fresh := &dated{second, now.UTC().Format(http.TimeFormat)}
	d.last.Store(fresh)
	return fresh.text
}
