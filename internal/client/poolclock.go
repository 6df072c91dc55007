package client

import (
	"sync"
	"time"
)

// monotime is the number of nanoseconds since the first use of a pool, plus one. 0 is no time.
type monotime time.Duration

// clock reads the monotonic clock only. That takes half the time of time.Now, which also reads the
// wall clock, and saves 50 ns for each connection that becomes idle.
type clock struct {
	once  sync.Once
	began time.Time
}

func (p *pool) now() monotime {
	p.clock.once.Do(func() { p.clock.began = time.Now() })
	return 1 + monotime(time.Since(p.clock.began))
}
