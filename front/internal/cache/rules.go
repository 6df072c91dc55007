package cache

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// Rules are a validated conf.CachePolicy. They never change.
type Rules struct {
	policy  conf.CachePolicy
	diverts bool            // X-Accel-Redirect diverts
	ignores map[string]bool // fields, by their canonical names
}

// Compile validates a policy. With diverts the caller replaces a response with X-Accel-Redirect by
// another one. Such a response authorizes one request only: it is never stored, and a stored one is not
// used.
func Compile(p conf.CachePolicy, diverts bool) (*Rules, error) {
	u := &Rules{policy: p, diverts: diverts, ignores: make(map[string]bool)}
	for _, name := range p.Ignore {
		if !IsIgnorable(name) {
			return nil, fmt.Errorf("field %q cannot be ignored by a cache", name)
		}
		u.ignores[http.CanonicalHeaderKey(name)] = true
	}
	for _, v := range p.Valid {
		if v.For < 0 || slices.ContainsFunc(v.Statuses, func(s int) bool { return s < 100 || s > 599 }) {
			return nil, fmt.Errorf("status or time out of range: %v for %v", v.Statuses, v.For)
		}
	}
	for _, s := range p.Stale.Statuses {
		if !IsFailure(s) {
			return nil, fmt.Errorf("a stale response cannot replace one with status %d", s)
		}
	}
	if p.MinUses < 0 || p.LockTimeout < 0 || p.LockAge < 0 {
		return nil, errors.New("minimum uses and lock times must not be negative")
	}
	u.policy.LockTimeout = cmp.Or(p.LockTimeout, defaultLock)
	u.policy.LockAge = cmp.Or(p.LockAge, defaultLock)
	return u, nil
}

// IsIgnorable reports whether conf.CachePolicy.Ignore may have a field.
func IsIgnorable(name string) bool {
	return slices.Contains([]string{"Cache-Control", "Expires", "Set-Cookie", "Vary", "X-Accel-Expires"},
		http.CanonicalHeaderKey(name))
}

// IsFailure reports whether a status can be one of conf.CacheStale or conf.NextUpstream.
func IsFailure(status int) bool {
	return slices.Contains([]int{403, 404, 429, 500, 502, 503, 504}, status)
}

// keeps reports whether responses to a method are stored: those to others depend on the body of the
// request, which no key contains.
func keeps(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// lifetime defines when a response may be used.
type lifetime struct {
	received time.Time
	age      time.Duration // at that time
	fresh    time.Time     // the end of its freshness
	// revalidating and failing are stale-while-revalidate and stale-if-error of the response.
	revalidating, failing time.Duration
	strict                bool // never served stale
}

// Reasons not to store a response.
const (
	notFresh = "not fresh" // it could be stored otherwise
	diverted = "diverted"
	streamed = "streamed"
)

// replaces reports whether the caller replaces a response by another one.
func (u *Rules) replaces(h http.Header) bool { return u.diverts && len(h["X-Accel-Redirect"]) > 0 }

// judge returns the freshness of a response and the fields that select it, or the reason not to
// store it. sentAt is when the request was sent.
func (u *Rules) judge(q *Query, resp *http.Response, sentAt, now time.Time) (l lifetime, chosen []choice,
	why string) {
	h := resp.Header
	switch {
	case resp.StatusCode < 200 || resp.StatusCode == http.StatusNotModified ||
		resp.StatusCode == http.StatusPartialContent && (q.IsPart == nil || !q.IsPart(resp)) ||
		resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return l, nil, "status"
	case u.replaces(h):
		return l, nil, diverted
	case q.IsStreamed != nil && q.IsStreamed(h):
		return l, nil, streamed
	case !u.ignores["Set-Cookie"] && len(h["Set-Cookie"]) > 0:
		return l, nil, "set-cookie"
	}
	l = lifetime{received: now, age: ageOf(h) + max(0, now.Sub(sentAt))}
	allowed := false // to store responses to requests with Authorization
	storedStale := false
	if until, given := u.accelExpires(h, now); given {
		l.fresh, allowed, storedStale = until, true, until.Before(now)
	} else {
		d, targeted := u.control(h)
		if d.has("no-store") || d.has("no-cache") || d.has("private") {
			return l, nil, "cache-control"
		}
		u.applyControl(&l, d, targeted, h, resp.StatusCode)
		allowed = d.has("public") || d.has("must-revalidate") || d.has("s-maxage") // RFC 9111, 3.5
	}
	switch {
	case !allowed && !q.KeyedByAuthorization && len(q.Origin.Field("Authorization")) > 0:
		return l, nil, "authorization"
	case !l.fresh.After(now) && !storedStale:
		return l, nil, notFresh
	case q.Rejects != nil && q.Rejects(resp):
		return l, nil, "refused"
	case u.ignores["Vary"]:
		return l, nil, ""
	}
	chosen, ok := choices(h["Vary"], q.Origin)
	if !ok {
		return l, nil, "vary"
	}
	return l, chosen, ""
}

// control returns the response's cache directives. If CDN-Cache-Control defines them (targeted, RFC
// 9213), Cache-Control and Expires have no effect.
func (u *Rules) control(h http.Header) (d directives, targeted bool) {
	if u.ignores["Cache-Control"] {
		return d, false
	}
	if lines := h["Cdn-Cache-Control"]; len(lines) > 0 {
		if d, targeted = parseTargeted(lines); targeted {
			return d, true
		}
	}
	return parseControl(h["Cache-Control"]), false
}

// applyControl sets the freshness as in RFC 9111, 4.2, or by Valid for responses that define none.
func (u *Rules) applyControl(l *lifetime, d directives, targeted bool, h http.Header, status int) {
	l.revalidating, l.failing = d.duration("stale-while-revalidate"), d.duration("stale-if-error")
	l.strict = d.has("must-revalidate") || d.has("proxy-revalidate")
	arrived := l.received.Add(-l.age)
	switch {
	case d.has("s-maxage"):
		l.fresh = arrived.Add(d.duration("s-maxage"))
	case d.has("max-age"):
		l.fresh = arrived.Add(d.duration("max-age"))
	case !targeted && !u.ignores["Expires"] && len(h["Expires"]) > 0:
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

// accelExpires reads X-Accel-Expires: seconds, or @ and the Unix time. The field is meant for this
// cache alone, and overrides the response's other directives. As in nginx, a response with a past
// time is stored as stale, and an invalid value is ignored.
func (u *Rules) accelExpires(h http.Header, now time.Time) (until time.Time, given bool) {
	lines := h["X-Accel-Expires"]
	if u.ignores["X-Accel-Expires"] || len(lines) == 0 {
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
		until, most := time.Unix(int64(n), 0), now.Add(maxSeconds*time.Second)
		if until.After(most) {
			until = most
		}
		return until, true
	}
	n, ok := parseSeconds(text)
	return now.Add(time.Duration(n) * time.Second), ok
}

// expiresIn returns the time between a response's Date and its Expires. With an invalid Expires, or
// different ones, the response is stale: RFC 9111, 5.3.
func expiresIn(h http.Header, received time.Time) time.Duration {
	lines := slices.Compact(slices.Clone(h["Expires"]))
	expires, ok := parseDate(lines[0])
	if !ok || len(lines) > 1 {
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

// parseDate parses an HTTP-date in one of the three forms of RFC 9110, 5.6.7. http.ParseTime also
// accepts others, such as several spaces or an hour of one digit. As in nginx the day of the week
// may be a wrong one, and case does not matter.
func parseDate(text string) (time.Time, bool) {
	const zone = "GMT"
	text = trim(text)
	if at := len(text) - len(zone); at > 0 && strings.EqualFold(text[at:], zone) {
		text = text[:at] + zone
	}
	t, err := http.ParseTime(text)
	if err != nil {
		return t, false
	}
	_, date, _ := strings.Cut(text, " ")
	for _, layout := range [...]string{"02 Jan 2006 15:04:05 GMT", "02-Jan-06 15:04:05 GMT", "Jan _2 15:04:05 2006"} {
		if strings.EqualFold(t.UTC().Format(layout), date) {
			return t, true
		}
	}
	return t, false
}

// ageOf returns the value of Age. An invalid one is ignored: RFC 9111, 5.1.
func ageOf(h http.Header) time.Duration {
	lines := h["Age"]
	if len(lines) == 0 {
		return 0
	}
	first, _, _ := strings.Cut(lines[0], ",")
	n, _ := parseSeconds(trim(first))
	return time.Duration(n) * time.Second
}

// grow makes a response older.
func (l *lifetime) grow(by time.Duration) {
	l.age += by
	l.fresh = l.fresh.Add(-by)
}

func (l *lifetime) isFresh(now time.Time) bool { return now.Before(l.fresh) }

// mayUpdate reports whether a stale response may be served while it is updated.
func (u *Rules) mayUpdate(l *lifetime, now time.Time) bool {
	return !l.strict && (u.policy.Stale.Updating || now.Before(l.fresh.Add(l.revalidating)))
}

// mayFail reports whether a stale response may be served after an error of the origin.
func (u *Rules) mayFail(l *lifetime, err error, now time.Time) bool {
	if l.strict {
		return false
	}
	allowed := u.policy.Stale.Error
	var slow interface{ Timeout() bool }
	var invalid interface{ InvalidHeader() bool }
	switch {
	case errors.As(err, &invalid) && invalid.InvalidHeader():
		allowed = u.policy.Stale.InvalidHeader
	case errors.As(err, &slow) && slow.Timeout():
		allowed = u.policy.Stale.Timeout
	}
	return allowed || now.Before(l.fresh.Add(l.failing))
}

// mayReplace reports whether a stale response may be served instead of one with such a status.
func (u *Rules) mayReplace(l *lifetime, status int, now time.Time) bool {
	if l.strict {
		return false
	}
	// RFC 5861, 4
	allowed := status >= 500 && status <= 504 && status != http.StatusNotImplemented &&
		now.Before(l.fresh.Add(l.failing))
	return allowed || slices.Contains(u.policy.Stale.Statuses, status)
}
