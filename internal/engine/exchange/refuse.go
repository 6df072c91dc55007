package exchange

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// Refuse responds to a request that no handler sees, and ends the connection. why is never text of
// the client's: nothing that it sent is echoed.
func (c *Conn) Refuse(status int, why string) {
	c.Codec.Refuse(c, status, why)
	c.ReportRefusal(status, int64(len(RefusalText(status, why))))
	c.SendAndLinger()
}

// SendAndLinger flushes the output, and allows the client time to read it.
func (c *Conn) SendAndLinger() {
	switch {
	case c.Config.WriteTimeout > 0:
		c.SetWriteDeadline(time.Now().Add(c.Config.WriteTimeout))
	case c.Config.DefaultSendTimeout == 0: // no setting limits what no handler sends
		c.SetWriteDeadline(time.Now().Add(c.Config.HeadTimeout))
	}
	if c.Flush() == nil {
		c.linger()
	}
}

// RefusalText returns the body of such a response.
func RefusalText(status int, why string) string {
	if status == http.StatusNotImplemented {
		return "Unsupported transfer encoding" // tests of net/http expect this text
	}
	return strconv.Itoa(status) + " " + http.StatusText(status) + ": " + why
}

// linger allows the client time to read the last response while it may still be sending. It reads
// and discards what the client sends, within limits.
func (c *Conn) linger() {
	if len(c.Out) > 0 && c.Flush() != nil {
		return
	}
	if half, ok := c.NetConn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c.NetConn, lingerBytes)
}
