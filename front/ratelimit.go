package front

import (
	"net/http"
	"strconv"
	"strings"
	"time"
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
	rate, ok := parseSize(w.x.limitRate)
	if w.x.limitRate == "" || !ok { // as in nginx an invalid rate is ignored
		rate, ok = parseSize(f.rate.eval(w.x))
	}
	if ok && rate > 0 {
		after, _ := parseSize(f.rateAfter.eval(w.x))
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

// parseSize parses a number of bytes with nginx's units: 10, 5k, 1m, 2g. "" is 0.
func parseSize(s string) (int64, bool) {
	unit := int64(1)
	switch {
	case s == "":
		return 0, true
	case strings.ContainsAny(s[len(s)-1:], "kK"):
		unit = 1 << 10
	case strings.ContainsAny(s[len(s)-1:], "mM"):
		unit = 1 << 20
	case strings.ContainsAny(s[len(s)-1:], "gG"):
		unit = 1 << 30
	}
	if unit > 1 {
		s = s[:len(s)-1]
	}
	n, ok := parseDigits(s)
	if !ok || n > (1<<62)/unit {
		return 0, false
	}
	return n * unit, true
}

// parseDigits parses a number of digits only.
func parseDigits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
