package front

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tarehq/tare/front/internal/grammar"
)

// rateLimiter bounds the rate of a response as nginx does: up to the rate times the seconds since
// the first byte, rounded up.
type rateLimiter struct {
	rate, after int64 // bytes per second; bytes that are not limited
	startTime   time.Time
}

// startLimits starts the limits of the body's rate and of the time between two writes.
func (w *writer) startLimits(f *filters) {
	w.deadline = newSendDeadline(w.x, f.sendTimeout)
	if w.x.limitRate == "" && f.rate.empty() {
		return
	}
	rate, err := grammar.ParseOffset(w.x.limitRate)
	if err != nil { // as in nginx an invalid rate is ignored
		rate, err = grammar.ParseOffset(f.rate.eval(w.x))
	}
	if err == nil && rate > 0 {
		after, _ := grammar.ParseOffset(f.rateAfter.eval(w.x))
		w.pace = &rateLimiter{rate: rate, after: after, startTime: time.Now()}
	}
}

// wait waits until something may be sent, and returns how much. It ends with the request.
func (p *rateLimiter) wait(w *writer) (int64, error) {
	for {
		seconds := int64(time.Since(p.startTime)/time.Second) + 1
		most := p.after - w.sent
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
		case <-w.x.r.Context().Done():
			timer.Stop()
			return 0, w.x.r.Context().Err()
		}
	}
}

// limitRate is $limit_rate as it was set, in bytes.
func limitRate(x *exchange) string {
	rate, _ := grammar.ParseOffset(x.limitRate) // setLimitRate accepts only valid ones
	return strconv.FormatInt(rate, 10)
}

// setLimitRate sets $limit_rate. As in nginx an invalid value leaves it unchanged.
func setLimitRate(x *exchange, value string) {
	if _, err := grammar.ParseOffset(value); err != nil {
		x.errorf(levelError, "invalid $limit_rate %q", truncateLogged(value))
		return
	}
	x.limitRate = value
}
