package acme

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"
)

// Parts of a certificate's lifetime.
const (
	renewalPart = 3  // without the issuer's advice, a certificate is renewed when a third remains
	spreadPart  = 12 // and earlier by up to this part, so that renewals are spread over time
	latestPart  = 6  // the issuer's advice cannot delay a renewal into this last part
	pacePart    = 24 // the longest time between attempts, and between requests for advice
)

// minInterval is the shortest time between a certificate's issue and its renewal, however short its
// life is. A wrong issuer would otherwise cause one order after another.
const minInterval = 10 * time.Second

// Timing has the intervals of renewals and attempts. Zero fields have defaults.
type Timing struct {
	// RetryMin and RetryMax limit the time between attempts, which doubles with each failure. The
	// defaults are a minute and six hours. A short-lived certificate, and one that expires soon, is
	// retried sooner.
	RetryMin, RetryMax time.Duration
	// MinAge is the age before which no certificate is renewed, whatever the issuer advises. It
	// is at most half of the certificate's lifetime. The default is an hour.
	MinAge time.Duration
	// LockRetry is the time between attempts to lock a certificate that another process orders.
	// The default is 5 seconds.
	LockRetry time.Duration
	// InfoMin is the shortest time between requests for the issuer's advice. The default is a
	// minute, as RFC 9773, 4.3.2 recommends.
	InfoMin time.Duration
}

func (t Timing) withDefaults() Timing {
	return Timing{
		RetryMin: cmp.Or(t.RetryMin, time.Minute), RetryMax: cmp.Or(t.RetryMax, 6*time.Hour),
		MinAge: cmp.Or(t.MinAge, time.Hour), LockRetry: cmp.Or(t.LockRetry, 5*time.Second),
		InfoMin: cmp.Or(t.InfoMin, time.Minute),
	}
}

// window is the time in which an issuer advises to renew a certificate (RFC 9773, 4.2).
type window struct{ start, end time.Time }

// period is when a certificate is valid, and when this process obtained it: zero if another one
// did.
type period struct{ notBefore, notAfter, obtained time.Time }

func (p period) lifetime() time.Duration { return p.notAfter.Sub(p.notBefore) }

// renewalTime returns when to renew a certificate. The fraction, from 0 to 1, selects a time within
// the issuer's window or, without one, within the spread. The result is stable for a certificate,
// so a restart changes nothing.
func (t Timing) renewalTime(p period, advice *window, fraction float64) time.Time {
	life := p.lifetime()
	at, latest := p.notAfter.Add(-life/renewalPart-scale(life/spreadPart, fraction)), p.notAfter.Add(-life/latestPart)
	if advice != nil {
		length := min(advice.end.Sub(advice.start), latest.Sub(advice.start))
		at = advice.start.Add(scale(length, fraction))
	}
	if at.After(latest) {
		at = latest
	}
	// Authorities backdate certificates. The time at which it was obtained keeps wrong advice, and
	// a wrong clock, from causing one order after another.
	since := p.notBefore
	if p.obtained.After(since) {
		since = p.obtained
	}
	interval := max(min(t.MinAge, life/2), min(t.RetryMin, minInterval))
	if earliest := since.Add(interval); at.Before(earliest) {
		at = earliest
	}
	return at
}

// pace returns the longest time between attempts, or between requests for advice: a part of the
// certificate's lifetime, from least to most. life is 0 without a certificate.
func pace(life, least, most time.Duration) time.Duration {
	if life == 0 {
		return most
	}
	return min(max(life/pacePart, least), most)
}

// backoff returns the time until the next attempt after a number of failures in a row. life is the
// current certificate's lifetime and remaining how long it is valid; both are 0 without one.
func (t Timing) backoff(failures int, life, remaining time.Duration) time.Duration {
	wait, longest := t.RetryMin, pace(life, t.RetryMin, t.RetryMax)
	for n := 1; n < failures && wait < longest; n++ {
		wait = min(2*wait, longest)
	}
	if remaining > 0 { // a quarter leaves room for several attempts
		wait = max(min(wait, remaining/4), min(t.RetryMin, time.Minute))
	}
	return wait - scale(wait/4, rand.Float64()) // so that many certificates do not retry at once
}

func scale(d time.Duration, fraction float64) time.Duration {
	return time.Duration(float64(d) * fraction)
}

// fractionOf returns a number from 0 to 1 that depends on a certificate only.
func fractionOf(der []byte) float64 {
	sum := sha256.Sum256(der)
	return float64(binary.BigEndian.Uint64(sum[:])) / math.MaxUint64
}
