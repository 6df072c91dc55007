package cache

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rules are a Policy that was checked. They never change.
type Rules struct {
	policy Policy
	ignore struct{ control, expires, cookies, vary, accel bool }
}

// Compile checks a Policy.
func Compile(p Policy) (*Rules, error) {
	u := &Rules{policy: p}
	for _, name := range p.Ignore {
		switch http.CanonicalHeaderKey(name) {
		case "Cache-Control":
			u.ignore.control = true
		case "Expires":
			u.ignore.expires = true
		case "Set-Cookie":
			u.ignore.cookies = true
		case "Vary":
			u.ignore.vary = true
		case "X-Accel-Expires":
			u.ignore.accel = true
		default:
			return nil, fmt.Errorf("the field %q cannot be ignored by a cache", name)
		}
	}
	for _, m := range p.Methods {
		if !keeps(m) {
			return nil, fmt.Errorf("answers to %q cannot be kept, only those to GET and HEAD: they depend on the request's body, which is in no key", m)
		}
	}
	for _, v := range p.Valid {
		if v.For < 0 || slices.ContainsFunc(v.Statuses, func(s int) bool { return s < 100 || s > 599 }) {
			return nil, fmt.Errorf("status or time out of range: %v for %v", v.Statuses, v.For)
		}
	}
	for _, s := range p.Stale.Statuses {
		if !slices.Contains([]int{403, 404, 429, 500, 502, 503, 504}, s) {
			return nil, fmt.Errorf("a stale answer cannot stand for the status %d", s)
		}
	}
	if p.MinUses < 0 || p.LockTimeout < 0 || p.LockAge < 0 {
		return nil, errors.New("uses and times of locks cannot be below zero")
	}
	u.policy.LockTimeout = orDefault(p.LockTimeout, DefaultLock)
	u.policy.LockAge = orDefault(p.LockAge, DefaultLock)
	return u, nil
}

func orDefault[T int | int64 | time.Duration](n, standard T) T {
	if n == 0 {
		return standard
	}
	return n
}

// keeps reports whether answers to a method are kept.
func keeps(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// lifetime is when an answer may be used.
type lifetime struct {
	received time.Time
	age      time.Duration // when it was received
	fresh    time.Time     // until then
	// revalidating and failing are how long after that it will do while it is updated, or if that fails, as it said itself.
	revalidating, failing time.Duration
	strict                bool // it will never do after that
}

// Reasons for which a response is not stored.
const (
	notFresh = "not fresh" // now; it could be stored otherwise
	diverted = "diverted"
)

// diverts reports whether the caller replaces a response with another one.
func (u *Rules) diverts(status int, h http.Header) bool {
	return u.policy.Diverts != nil && u.policy.Diverts(status, h)
}

// judge says for how long an answer is fresh, or why it is not kept. asked is when the origin was.
func (u *Rules) judge(q *Query, request *fields, resp *http.Response, asked, now time.Time) (l lifetime, why string) {
	h := resp.Header
	switch {
	case resp.StatusCode < 200 || resp.StatusCode == http.StatusPartialContent || resp.StatusCode == http.StatusNotModified ||
		resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return l, "status"
	case u.diverts(resp.StatusCode, h):
		return l, diverted
	case !u.ignore.cookies && len(h["Set-Cookie"]) > 0:
		return l, "set-cookie"
	case !u.ignore.vary && !varies(h["Vary"]):
		return l, "vary"
	}
	l = lifetime{received: now, age: ageOf(h) + max(0, now.Sub(asked))}
	allowed := false // for requests with Authorization
	storedStale := false
	if until, given := u.accelExpires(h, now); given {
		l.fresh, allowed, storedStale = until, true, until.Before(now)
	} else {
		d, targeted := u.control(h)
		if d.noStore || d.noCache || d.private {
			return l, "cache-control"
		}
		u.applyControl(&l, d, targeted, h, resp.StatusCode)
		allowed = d.public || d.mustRevalidate || d.sharedMaxAge.given // RFC 9111, 3.5
	}
	switch {
	case !allowed && !q.KeyedByAuthorization && request.authorized():
		return l, "authorization"
	case !l.fresh.After(now) && !storedStale:
		return l, notFresh
	case q.Refuses != nil && q.Refuses(resp):
		return l, "refused"
	}
	return l, ""
}

// control is what a response says of being stored, and whether CDN-Cache-Control says it: then neither Cache-Control nor Expires does.
func (u *Rules) control(h http.Header) (d directives, targeted bool) {
	if u.ignore.control {
		return d, false
	}
	if lines := h[targetedField]; len(lines) > 0 {
		if d, targeted = parseTargeted(lines); targeted {
			return d, true
		}
	}
	return parseControl(h["Cache-Control"]), false
}

// applyControl finds freshness as RFC 9111, 4.2 does, and for answers that say nothing by Valid.
func (u *Rules) applyControl(l *lifetime, d directives, targeted bool, h http.Header, status int) {
	l.revalidating, l.failing = d.staleWhileRevalidate.duration(), d.staleIfError.duration()
	l.strict = d.mustRevalidate || d.proxyRevalidate
	arrived := l.received.Add(-l.age)
	switch {
	case d.sharedMaxAge.given:
		l.fresh = arrived.Add(d.sharedMaxAge.duration())
	case d.maxAge.given:
		l.fresh = arrived.Add(d.maxAge.duration())
	case !targeted && !u.ignore.expires && len(h["Expires"]) > 0:
		l.fresh = arrived.Add(expiresIn(h, l.received))
	default:
		l.fresh = l.received.Add(u.validFor(status))
	}
}

func (u *Rules) validFor(status int) time.Duration {
	for _, v := range u.policy.Valid {
		if len(v.Statuses) == 0 || slices.Contains(v.Statuses, status) {
			return v.For
		}
	}
	return 0
}

// accelExpires is what X-Accel-Expires says: seconds, or @ and the time in seconds since 1970. It is meant for
// this cache alone, and overrides whatever else an answer says of being kept. As in nginx a time that has passed has the response be
// stored, and be stale, and a value that is no number says nothing.
func (u *Rules) accelExpires(h http.Header, now time.Time) (until time.Time, given bool) {
	lines := h["X-Accel-Expires"]
	if u.ignore.accel || len(lines) == 0 {
		return until, false
	}
	if len(lines) > 1 {
		return now, true
	}
	text := trim(lines[0])
	if at, absolute := strings.CutPrefix(text, "@"); absolute {
		n, err := strconv.ParseUint(at, 10, 63)
		switch {
		case err != nil:
			return until, false
		case n == 0:
			return now, true
		}
		return earlier(time.Unix(int64(n), 0), now.Add(maxSeconds*time.Second)), true
	}
	n, ok := parseSeconds(text)
	return now.Add(time.Duration(n) * time.Second), ok
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// expiresIn is how long after it was made an answer expires. An invalid Expires, or several, have it be stale: RFC 9111, 5.3.
func expiresIn(h http.Header, received time.Time) time.Duration {
	lines := h["Expires"]
	for _, other := range lines[1:] {
		if other != lines[0] {
			return 0
		}
	}
	expires, ok := parseDate(lines[0])
	if !ok {
		return 0
	}
	made := received
	if dates := h["Date"]; len(dates) == 1 {
		if t, ok := parseDate(dates[0]); ok {
			made = t
		}
	}
	return min(expires.Sub(made), maxSeconds*time.Second)
}

// parseDate parses an HTTP-date in one of the forms of RFC 9110, 5.6.7, and in no other that package time reads, too, such as with
// several spaces or an hour of one digit.
func parseDate(text string) (time.Time, bool) {
	text = trim(text)
	t, err := http.ParseTime(text)
	if err != nil {
		return t, false
	}
	for _, layout := range [...]string{http.TimeFormat, "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if strings.EqualFold(t.UTC().Format(layout), text) {
			return t, true
		}
	}
	return t, false
}

// ageOf is what the answer's Age says. One that cannot be read says nothing: RFC 9111, 5.1.
func ageOf(h http.Header) time.Duration {
	lines := h["Age"]
	if len(lines) == 0 {
		return 0
	}
	first, _, _ := strings.Cut(lines[0], ",")
	n, _ := parseSeconds(trim(first))
	return time.Duration(n) * time.Second
}

// grow makes an answer older.
func (l *lifetime) grow(by time.Duration) {
	l.age += by
	l.fresh = l.fresh.Add(-by)
}

// isFresh reports whether an answer need not be looked at.
func (l *lifetime) isFresh(now time.Time) bool { return now.Before(l.fresh) }

// mayUpdate reports whether a stale answer will do while it is updated.
func (u *Rules) mayUpdate(l *lifetime, now time.Time) bool {
	return !l.strict && (u.policy.Stale.Updating || now.Before(l.fresh.Add(l.revalidating)))
}

// mayFail reports whether a stale answer will do for an error of the origin.
func (u *Rules) mayFail(l *lifetime, err error, now time.Time) bool {
	if l.strict {
		return false
	}
	allowed := u.policy.Stale.Error
	switch failureOf(err) {
	case timedOut:
		allowed = u.policy.Stale.Timeout
	case invalidHeader:
		allowed = u.policy.Stale.InvalidHeader
	}
	return allowed || now.Before(l.fresh.Add(l.failing))
}

// mayReplace reports whether a stale answer will do for an answer with such a status.
func (u *Rules) mayReplace(l *lifetime, status int, now time.Time) bool {
	if l.strict {
		return false
	}
	said := status >= 500 && status <= 504 && status != http.StatusNotImplemented && now.Before(l.fresh.Add(l.failing)) // RFC 5861, 4
	return said || slices.Contains(u.policy.Stale.Statuses, status)
}
