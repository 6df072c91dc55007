package fetch

import "time"

// Pace bounds a rate as nginx does: up to the rate times the seconds since its start, rounded up.
type Pace struct {
	rate  int64 // bytes per second
	start time.Time
}

// NewPace starts a Pace with a rate above 0.
func NewPace(rate int64) *Pace { return &Pace{rate, time.Now()} }

// Allowed returns how many bytes may have been transferred since the start, less than 1<<62, and the
// time until there are more.
func (p *Pace) Allowed() (bytes int64, rest time.Duration) {
	seconds := int64(time.Since(p.start)/time.Second) + 1
	if seconds >= 1<<62/p.rate {
		return 1<<62 - 1, 0
	}
	return p.rate * seconds, time.Until(p.start.Add(time.Duration(seconds) * time.Second))
}
