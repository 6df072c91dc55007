package front

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pace bounds the rate of an answer, by nginx's arithmetic: what was sent may be at most what the rate allows for
// the whole seconds since the first byte, and one more.
type rateLimiter struct {
	rate, after int64 // bytes per second, and before that counts
	startTime   time.Time
}

// begin sets what bounds the body: its rate and the time between two writes.
func (w *writer) startLimits(f *filters) {
	w.deadline = newSendDeadline(w.x, f.sendTimeout)
	rate, ok := parseSize(w.x.limitRate)
	if w.x.limitRate == "" || !ok { // as in nginx, words that are no rate change none
		rate, ok = parseSize(f.rate.eval(w.x))
	}
	if ok && rate > 0 {
		after, _ := parseSize(f.rateAfter.eval(w.x))
		w.pace = &rateLimiter{rate: rate, after: after, startTime: time.Now()}
	}
}

// await waits until something may be sent, and returns how much. It ends with the request.
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
		_ = http.NewResponseController(w.ResponseWriter).Flush() // the client shall have what it may
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

// parseSize reads a number of bytes with a unit as nginx has it: 10, 5k, 1m, 2g. Empty is 0.
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

// parseDigits reads a number that is digits only.
func parseDigits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
