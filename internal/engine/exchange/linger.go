package exchange

import "time"

// A client may still send when the last response has been sent. Closing at once would reset the
// connection, and the client would lose what it has not read yet. The server therefore ends its
// output only, and reads on for a while.

// lingerLimits limit this reading.
type lingerLimits struct {
	time    time.Duration // in all
	timeout time.Duration // while the client sends nothing
	always  bool          // also after a request that was read to its end
}

func defaultLinger() lingerLimits { return lingerLimits{lingerTime, lingerTimeout, false} }

// prepareLinger sets Lingers, after the last response.
func (c *Conn) prepareLinger(b *Body) {
	waits := b.mayContinue() || b.flags.Has(bodyEndsConn) || len(c.Input()) > 0 || c.linger.always
	c.Lingers = waits && (c.Lingers || c.halfClose())
}

// halfClose sends the output and its end. It reports whether the connection can linger.
func (c *Conn) halfClose() bool {
	if c.Flush() != nil || c.linger.time <= 0 || c.Connection == nil {
		return false
	}
	return c.Connection.CloseWrite() == nil
}

// Linger reads and discards what the client sends, if it may be sending, until it closes the
// connection or the limits are reached. Nothing else uses the input any more.
func (c *Conn) Linger() {
	if !c.Lingers {
		return
	}
	c.Lingers = false
	c.Consume(len(c.Input()))
	c.Trim() // a buffer for a part of a head would be small
	buffer, began := c.Room(), time.Now()
	for received := began; ; {
		end := began.Add(c.linger.time)
		if c.Config.Server.Closing.Load() { // nothing that a client does holds up Shutdown
			end = began.Add(min(c.linger.time, lingerTimeout))
		}
		if idle := received.Add(c.linger.timeout); idle.Before(end) {
			end = idle
		}
		now := time.Now()
		if !now.Before(end) {
			return
		}
		if soon := now.Add(lingerTimeout); soon.Before(end) {
			end = soon // to check whether the server is closing
		}
		c.SetReadDeadline(end)
		n, err := c.Connection.Read(buffer)
		switch {
		case n > 0:
			received = time.Now()
		case err != nil && !IsTimeout(err):
			return
		}
	}
}
