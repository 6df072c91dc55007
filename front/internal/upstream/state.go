package upstream

import (
	"net/netip"
	"sync"
	"time"
)

// State is the state of a group's servers, by address. It outlives configurations: the groups of a
// new configuration share it. The zero value is ready for use.
type State struct {
	mu     sync.Mutex             // guards everything below, and the peers of groups
	known  values[health]         // of peers
	names  values[[]netip.Addr]   // what the last lookup of a name has returned: new groups begin with it
	checks values[checkedServers] // of Checks
	bad    map[string]int         // the number of Checks that have failed, by address
}

// values are kept by their keys as long as they have users. The State's mu guards them.
type values[T any] map[string]*usedValue[T]

type usedValue[T any] struct {
	value T
	users int
}

// acquire returns the value for a key: the zero value, unless it has users.
func (all *values[T]) acquire(key string) *T {
	v := (*all)[key]
	if v == nil {
		if *all == nil {
			*all = make(values[T])
		}
		v = new(usedValue[T])
		(*all)[key] = v
	}
	v.users++
	return &v.value
}

// release ends a use, and reports whether it was the last one.
func (all values[T]) release(key string) (isLast bool) {
	v := all[key]
	if v.users--; v.users > 0 {
		return false
	}
	delete(all, key)
	return true
}

// health is the state of an address.
//
//	available -> resting     MaxFails failures without a success in between
//	resting   -> trial       the first request later than failTimeout after the last failure
//	trial     -> available   the request succeeds
//	trial     -> resting     the request fails
type health struct {
	fails   int       // since the last successful trial
	failed  time.Time // the time of the last failure
	checked time.Time // the last failure, or the last trial
	conns   int       // requests in progress
	// recovered is when the server became available again: see slow_start.
	recovered time.Time
}

// resting reports whether a server is unavailable after failures. Its next trial is failTimeout
// after the last one.
func (h *health) resting(maxFails int, failTimeout time.Duration, now time.Time) bool {
	return maxFails > 0 && h.fails >= maxFails && now.Sub(h.checked) <= failTimeout
}

// begin records the start of a request. The first one after failTimeout is a trial: the server gets
// no others until it has succeeded, or for another failTimeout.
func (h *health) begin(failTimeout time.Duration, now time.Time) {
	h.conns++
	if now.Sub(h.checked) > failTimeout {
		h.checked = now
	}
}

func (h *health) fail(now time.Time) {
	h.fails++
	h.failed, h.checked = now, now
}

// succeed resets failures, if the request began after the last one.
func (h *health) succeed(maxFails int, now time.Time) {
	if h.failed.Before(h.checked) {
		if maxFails > 0 && h.fails >= maxFails {
			h.recovered = now
		}
		h.fails = 0
	}
}
