package h2

import (
	"os"
	"time"

	wire "github.com/tarehq/tare/internal/wire/http2"
)

// health is whether the peer still responds. A PING checks that after a silence of
// Config.PingAfter, and when a request was abandoned and nothing has arrived since it was sent: the
// connection is suspect then, and accepts no streams until something arrives.
type health struct {
	frames     uint64      // complete frames, and pieces of DATA, that have arrived
	timer      *time.Timer // the end of the silence, or of the wait for a PING's response
	checked    uint64      // frames at the last check
	isAwaiting bool        // the response to a PING
	isSuspect  bool
	isSpent    bool // a suspicion has sent a PING since HEADERS or DATA arrived
}

// healthPing is the content of a PING.
const healthPing = "tare-h2c"

func (h *health) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// startPingsLocked starts to watch for silence.
func (c *Conn) startPingsLocked() {
	if d := c.config.PingAfter; d > 0 {
		c.health.timer = time.AfterFunc(d, c.checkHealth)
	}
}

// checkHealth sends a PING after a silence, and ends the connection if there is no response.
func (c *Conn) checkHealth() {
	c.mu.Lock()
	h := &c.health
	isSilent := h.frames == h.checked
	h.checked = h.frames
	switch {
	case c.err != nil:
	case h.isAwaiting && isSilent:
		c.mu.Unlock()
		c.end(&Error{Kind: TimedOut, Err: &pingError{}}, wire.NoError, true)
		return
	case isSilent && c.config.PingAfter > 0:
		c.pingLocked()
	default:
		h.isAwaiting = false
		if c.config.PingAfter > 0 {
			h.timer.Reset(c.config.PingAfter)
		}
	}
	c.mu.Unlock()
}

// pingError is the error of a connection whose peer does not respond.
type pingError struct{}

func (*pingError) Error() string { return errNoPong.Error() }

func (*pingError) Unwrap() []error { return []error{errNoPong, os.ErrDeadlineExceeded} }

// pingLocked sends a PING, whose response must arrive in time.
func (c *Conn) pingLocked() {
	h := &c.health
	h.isAwaiting, h.checked = true, h.frames
	c.output.buf = wire.AppendPing(c.output.buf, 0, [8]byte([]byte(healthPing)))
	c.flushLocked()
	if h.timer == nil {
		h.timer = time.AfterFunc(c.config.PingTimeout, c.checkHealth)
	} else {
		h.timer.Reset(c.config.PingTimeout)
	}
}

// suspectLocked makes the connection suspect. Some servers end connections that send PINGs without
// requests, so only one is sent until HEADERS or DATA arrive.
func (c *Conn) suspectLocked() {
	h := &c.health
	if h.isSuspect = true; h.isAwaiting || h.isSpent {
		return
	}
	h.isSpent = true
	c.pingLocked()
}

// frameArrivedLocked records that the peer has responded.
func (c *Conn) frameArrivedLocked(isOfStream bool) {
	h := &c.health
	h.frames++
	if h.isSuspect {
		h.isSuspect = false
		c.checkRoomLocked()
	}
	if isOfStream {
		h.isSpent = false
	}
}
