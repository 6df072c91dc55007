package client

import "time"

// quietFor is how long the result of a check of idle connections is used. A server that learns of
// late bytes and of closed connections from an event loop, such as nginx, learns of them as late.
const quietFor = 200 * time.Microsecond

// quietChecks are the checks of the idle connections of a host. If many are taken in a short time,
// one system call checks those that are taken next, too: sixteen sockets cost about as much as two
// calls. Otherwise an exchange checks its own connection.
type quietChecks struct {
	last monotime // when the last check was made
	n    int      // connections of the last check
}

// takeChecked is takeIdle, and sets isQuiet of the result. The caller holds mu.
func (h *host) takeChecked() *conn {
	now := h.pool.now()
	if c := h.idle.last(); c != nil && !c.wasQuiet(now) {
		h.checkIdle(now)
	}
	c := h.takeIdle()
	c.isQuiet = c.wasQuiet(now)
	return c
}

// wasQuiet reports whether a check has found c quiet since it became idle, and not long ago.
func (c *conn) wasQuiet(now monotime) bool {
	return c.quietAt != 0 && now-c.quietAt < monotime(quietFor)
}

// checkIdle checks the connections that the next calls of takeChecked return. Their number doubles
// with each check within quietFor of the last one, and else halves. The caller holds mu.
func (h *host) checkIdle(now monotime) {
	s := &h.checks
	if now-s.last < monotime(quietFor) {
		s.n = min(2*s.n, maxQuiet)
	} else {
		s.n /= 2
	}
	if s.last, s.n = now, max(s.n, 1); s.n == 1 {
		return
	}
	var conns [maxQuiet]*conn
	var fds [maxQuiet]int
	var quiet [maxQuiet]bool
	n := 0
	for c := h.idle.last(); c != nil && n < s.n; c = c.nodes[hostList].prev {
		if c.probe != nil && c.pending == nil {
			conns[n], fds[n] = c, c.probe.fd
			n++
		}
	}
	if n == 0 {
		return
	}
	quietEach(fds[:n], quiet[:n])
	for i, c := range conns[:n] {
		if c.quietAt = 0; quiet[i] {
			c.quietAt = now
		}
	}
}
