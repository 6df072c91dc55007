package h2

import (
	"os"
	"time"

	wire "github.com/tarehq/tare/internal/wire/http2"
)

// health records whether the peer still responds. A PING checks that after a silence of
// Config.PingAfter. Another one checks it if a request was abandoned and nothing has arrived since
// it was sent. Until something arrives, such a connection is suspect and accepts no streams.
type health struct {
	frames     uint64      // of streams, pieces of DATA, and PINGs that have arrived
	arrivedAt  time.Time   // the last frame of any kind, if there is a PingAfter
	timer      *time.Timer // the end of the silence, or of the wait for a PING's response
	pingedAt   uint64      // frames when a PING was sent
	isAwaiting bool        // a PING has had no response yet
	isSuspect  bool
	isSpent    bool // suspectLocked has sent a PING, and neither HEADERS nor DATA have arrived since
}

const healthPing = "tare-h2c"

// checkHealth sends a PING after a silence, and ends the connection if there is no response.
func (c *Conn) checkHealth() {
	c.mu.Lock()
	h := &c.health
	isLost := h.isAwaiting && h.frames == h.pingedAt
	h.isAwaiting = false
	if d := c.config.PingAfter; d > 0 && !isLost && c.err == nil {
		if left := d - time.Since(h.arrivedAt); left > 0 {
			h.timer.Reset(left)
		} else {
			c.pingLocked()
		}
	}
	if !isLost { // other frames have arrived, so requests need not wait for the PING's response
		c.checkRoomLocked()
	}
	c.mu.Unlock()
	if isLost {
		c.end(&Error{Kind: TimedOut, Err: pingError{}}, wire.NoError, true)
	}
}

// pingError is the error of a connection whose peer does not respond.
type pingError struct{}

func (pingError) Error() string { return "http2: the server does not respond to PING" }

func (pingError) Unwrap() error { return os.ErrDeadlineExceeded }

// pingLocked sends a PING, whose response must arrive in time.
func (c *Conn) pingLocked() {
	h := &c.health
	h.isAwaiting, h.pingedAt = true, h.frames
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

// arrivedLocked records that a frame has arrived, or a piece of DATA.
func (c *Conn) arrivedLocked(kind wire.FrameType, stream uint32) {
	h := &c.health
	if c.config.PingAfter > 0 {
		h.arrivedAt = time.Now()
	}
	if stream == 0 && kind != wire.Ping { // a server may send it before it looks at requests
		return
	}
	h.frames++
	if h.isSuspect {
		h.isSuspect = false
		c.checkRoomLocked()
	}
	if kind == wire.Headers || kind == wire.Data {
		h.isSpent = false
	}
}
