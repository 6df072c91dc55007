package grammar

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Expiry is the value of an Expires.
type Expiry struct {
	Kind ExpiryKind
	// After is the time after the request or the modification time, for ExpiryIn, or after
	// midnight, for ExpiryAt.
	After time.Duration
}

// ExpiryKind is a kind of Expiry.
type ExpiryKind int

// The kinds of Expiry.
const (
	ExpiryIn    ExpiryKind = iota // after a time
	ExpiryAt                      // at a time of day
	ExpiryEpoch                   // before the request
	ExpiryMax                     // as late as possible
	ExpiryOff                     // no field is set
)

// ParseExpiry parses the text of an Expires, without variables.
func ParseExpiry(text string, modified bool) (Expiry, error) {
	words := map[string]ExpiryKind{"epoch": ExpiryEpoch, "max": ExpiryMax, "off": ExpiryOff}
	if kind, ok := words[text]; ok && !modified {
		return Expiry{Kind: kind}, nil
	}
	rest, daily := strings.CutPrefix(text, "@")
	minus := false
	switch {
	case daily && modified:
		return Expiry{}, errors.New("\"modified\" does not allow a time of day")
	case strings.HasPrefix(rest, "+") && !daily:
		rest = rest[1:]
	case strings.HasPrefix(rest, "-") && !daily:
		rest, minus = rest[1:], true
	}
	after, err := ParseSeconds(rest)
	if err != nil {
		return Expiry{}, fmt.Errorf("invalid time %s (examples: 30d, epoch, max, off, @15h30m)", Quote(text))
	}
	switch {
	case daily && after > Day:
		return Expiry{}, fmt.Errorf("%q is longer than a day", text)
	case daily:
		return Expiry{ExpiryAt, after}, nil
	case minus:
		after = -after
	}
	return Expiry{ExpiryIn, after}, nil
}
