package fetch

import (
	"context"
	"math"
	"net"
	"sync"
	"time"
)

// pace bounds how fast a body is read, as nginx does: up to the rate times the seconds since the
// head, rounded up.
type pace struct {
	rate, read int64
	startTime  time.Time
	closed     chan struct{}
	closeOnce  sync.Once
}

// newPace returns nil for a rate of 0.
func newPace(rate int64) *pace {
	if rate <= 0 {
		return nil
	}
	return &pace{rate: rate, startTime: time.Now(), closed: make(chan struct{})}
}

// wait waits until something may be read, and returns how much. It ends with ctx and with close.
func (p *pace) wait(ctx context.Context) (int, error) {
	for {
		seconds := int64(time.Since(p.startTime)/time.Second) + 1
		if seconds >= math.MaxInt32/p.rate {
			return math.MaxInt32, nil
		}
		if most := p.rate*seconds - p.read; most > 0 {
			return int(most), nil
		}
		timer := time.NewTimer(time.Until(p.startTime.Add(time.Duration(seconds) * time.Second)))
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		case <-p.closed:
			timer.Stop()
			return 0, net.ErrClosed
		}
	}
}

func (p *pace) add(n int) { p.read += int64(n) }

// close ends wait. It may be called in any goroutine.
func (p *pace) close() { p.closeOnce.Do(func() { close(p.closed) }) }
