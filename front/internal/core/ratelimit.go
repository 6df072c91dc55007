package core

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/grammar"
)

// rateLimiter bounds the rate of a response as nginx does: up to the rate times the seconds since
// the first byte, rounded up.
type rateLimiter struct {
	rate, after int64 // bytes per second; bytes that are not limited
	startTime   time.Time
}

// StartLimits starts the limits of the body's rate and of the time between two writes.
func (w *Writer) StartLimits(f *filters) {
	w.deadline = newSendDeadline(w.X, w.X.Loc.deadline)
	if w.X.LimitRate == "" && f.rate.Empty() {
		return
	}
	rate, err := grammar.ParseOffset(w.X.LimitRate)
	if err != nil { // as in nginx an invalid rate is ignored
		rate, err = grammar.ParseOffset(f.rate.Eval(w.X))
	}
	if err == nil && rate > 0 {
		after, _ := grammar.ParseOffset(f.rateAfter.Eval(w.X))
		w.pace = &rateLimiter{rate: rate, after: after, startTime: time.Now()}
	}
}

// wait waits until something may be sent, and returns how much. It ends with the request.
func (p *rateLimiter) wait(w *Writer) (int64, error) {
	for {
		seconds := int64(time.Since(p.startTime)/time.Second) + 1
		most := p.after - w.Sent
		if seconds < (1<<62)/p.rate {
			most += p.rate * seconds
		}
		if most > 0 {
			return most, nil
		}
		w.deadline.extend(w)
		// the client receives what it may before the pause
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		w.deadline.clear(w)
		timer := time.NewTimer(time.Until(p.startTime.Add(time.Duration(seconds) * time.Second)))
		select {
		case <-timer.C:
		case <-w.X.Request.Context().Done():
			timer.Stop()
			return 0, w.X.Request.Context().Err()
		}
	}
}

// limitRate is $limit_rate as it was set, in bytes.
func limitRate(x *Exchange) string {
	rate, _ := grammar.ParseOffset(x.LimitRate) // setLimitRate accepts only valid ones
	return strconv.FormatInt(rate, 10)
}

// setLimitRate sets $limit_rate. As in nginx an invalid value leaves it unchanged.
func setLimitRate(x *Exchange, value string) {
	if _, err := grammar.ParseOffset(value); err != nil {
		x.Errorf(errorlog.LevelError, "invalid $limit_rate %q", errorlog.Truncate(value))
		return
	}
	x.LimitRate = value
}
