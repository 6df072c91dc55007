package files

import "time"

const (
	// pathInterval is how long a resource is served without another check if the Config has ByPath.
	// It is less than the time between two requests of a client over a network. A file with 200,000
	// requests a second is checked by one request in four.
	pathInterval = 20 * time.Microsecond
	// rootInterval is the same for a root that is opened once, where the watcher does not count all
	// changes: a thousand checks a second at most.
	rootInterval = time.Millisecond
	// absentInterval is the same for what did not exist beside a file, in such a root. Checking for
	// three encoded variants as often as for the file would cost three times as much as the file.
	absentInterval = time.Second
)

// check is a name that a resource depends on.
type check struct {
	name  string
	stamp stamp // before the resource was loaded; zero if there was nothing
}

// now returns the nanoseconds since the Handler was made.
func (h *Handler) now() int64 { return int64(time.Since(h.began)) }

// fresh reports whether a resource may be served: nothing has changed in its directories, or its
// names lead to the same files. A file that had just been changed when it was read is read again:
// its times could not show another change.
func (h *Handler) fresh(res *resource) bool {
	if c := res.changes.Load(); c != 0 && c == h.watch.count() {
		return true
	}
	interval, absent := int64(rootInterval), int64(absentInterval)
	if h.plan.config.ByPath {
		interval, absent = int64(pathInterval), int64(pathInterval)
	}
	now, last := h.now(), res.checked.Load()
	if now-last < interval {
		return true
	}
	if res.unripe {
		return false
	}
	changes := h.watch.cover(res.checks)
	all := changes != 0 || now/absent != last/absent
	for i := range res.checks {
		c := &res.checks[i]
		if i > 0 && !all && c.stamp == (stamp{}) {
			continue
		}
		s, isPlain := h.tree.stamp(c.name, changes != 0)
		if s != c.stamp {
			return false
		}
		if !isPlain {
			changes = 0
		}
	}
	res.checked.Store(now)
	res.changes.Store(changes)
	return true
}
