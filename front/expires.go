package front

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// expires is an Expires, compiled.
type expires struct {
	text     text
	constant expiry // if text is constant
	modified bool
}

// expiry is a parsed Expires.Text.
type expiry struct {
	kind    expiryKind
	seconds int64 // after the request, the modification time, or midnight
}

type expiryKind int

const (
	expiryIn expiryKind = iota
	expiryAt            // a time of day
	expiryEpoch
	expiryMax
	expiryOff
)

const secondsOfDay = 24 * 60 * 60

// expires compiles an Expires.
func (c *compiler) expires(e *conf.Expires) (*expires, error) {
	if e == nil {
		return nil, nil
	}
	value, err := c.text(e.Text)
	if err != nil {
		return nil, fmt.Errorf("expires: %w", err)
	}
	out := &expires{text: value, modified: e.Modified}
	if value.constant() {
		if out.constant, err = parseExpiry(string(e.Text), e.Modified); err != nil {
			return nil, fmt.Errorf("expires: %w", err)
		}
		if out.constant.kind == expiryOff {
			return nil, nil
		}
	}
	return out, nil
}

// parseExpiry parses Expires.Text.
func parseExpiry(s string, modified bool) (expiry, error) {
	if !modified {
		switch s {
		case "epoch":
			return expiry{kind: expiryEpoch}, nil
		case "max":
			return expiry{kind: expiryMax}, nil
		case "off":
			return expiry{kind: expiryOff}, nil
		}
	}
	var e expiry
	rest, daily := strings.CutPrefix(s, "@")
	minus := false
	switch {
	case daily && modified:
		return e, errors.New("\"modified\" does not allow a time of day")
	case daily:
		e.kind = expiryAt
	case strings.HasPrefix(rest, "+"):
		rest = rest[1:]
	case strings.HasPrefix(rest, "-"):
		rest, minus = rest[1:], true
	}
	var ok bool
	if e.seconds, ok = parseSeconds(rest); !ok {
		return e, fmt.Errorf("invalid time %q", s)
	}
	if daily && e.seconds > secondsOfDay {
		return e, fmt.Errorf("%q is longer than a day", s)
	}
	if minus {
		e.seconds = -e.seconds
	}
	return e, nil
}

// parseSeconds parses a time as nginx does: "1d 12h", units in descending order, seconds without a
// unit.
func parseSeconds(s string) (total int64, ok bool) {
	const units, never = "yMwdhms", int64(1) << 33 // seconds: the range of time.Duration
	seconds := [...]int64{365 * secondsOfDay, 30 * secondsOfDay, 7 * secondsOfDay, secondsOfDay, 60 * 60, 60, 1}
	if s == "" {
		return 0, false
	}
	for last := -1; s != ""; s = strings.TrimLeft(s, " ") {
		end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(s)
		}
		n, err := strconv.ParseInt(s[:end], 10, 64)
		unit := len(units) - 1
		if s = s[end:]; s != "" && s[0] != ' ' {
			unit = strings.IndexByte(units, s[0])
			s = s[1:]
		} else if s != "" {
			return 0, false // only the last number may have no unit
		}
		if err != nil || unit <= last || n > never/seconds[unit] {
			return 0, false
		}
		if total += n * seconds[unit]; total > never {
			return 0, false
		}
		last = unit
	}
	return total, true
}

// set sets Expires and Cache-Control of a response.
func (e *expires) set(x *exchange, header http.Header) {
	what := e.constant
	if !e.text.constant() {
		var err error
		if what, err = parseExpiry(e.text.eval(x), e.modified); err != nil {
			return // as in nginx
		}
	}
	var at, control string
	switch now := time.Now(); what.kind {
	case expiryOff:
		return
	case expiryEpoch:
		at, control = "Thu, 01 Jan 1970 00:00:01 GMT", "no-cache"
	case expiryMax:
		at, control = "Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000"
	default:
		until := what.after(now, e.modified, header)
		at, control = until.UTC().Format(http.TimeFormat), "no-cache"
		if age := until.Unix() - now.Unix(); age >= 0 && what.seconds >= 0 {
			control = "max-age=" + strconv.FormatInt(age, 10)
		}
	}
	header["Expires"], header["Cache-Control"] = []string{at}, []string{control}
}

// after returns when a response of now expires.
func (e expiry) after(now time.Time, modified bool, header http.Header) time.Time {
	if e.kind == expiryAt {
		y, m, d := now.Date()
		until := time.Date(y, m, d, 0, 0, int(e.seconds), 0, now.Location())
		if !until.After(now) {
			until = time.Date(y, m, d+1, 0, 0, int(e.seconds), 0, now.Location())
		}
		return until
	}
	if modified {
		if at, err := http.ParseTime(header.Get("Last-Modified")); err == nil {
			now = at
		}
	}
	return now.Add(time.Duration(e.seconds) * time.Second)
}
