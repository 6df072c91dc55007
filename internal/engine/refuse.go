package engine

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// statuses holds the response status for each kind of malformed head.
var statuses = [...]int{
	http1.Malformed:     http.StatusBadRequest,
	http1.TooLarge:      http.StatusRequestHeaderFieldsTooLarge,
	http1.BadVersion:    http.StatusHTTPVersionNotSupported,
	http1.UnknownCoding: http.StatusNotImplemented,
}

func (c *conn) refuseHead(err error) {
	e, ok := errors.AsType[*http1.Error](err)
	if !ok {
		panic("engine: BUG: codec error of another type: " + err.Error())
	}
	status := statuses[e.Kind]
	if e.Kind == http1.TooLarge && !c.request.Begun() {
		status = http.StatusRequestURITooLong // 431 is only for fields
	}
	c.refuse(status, e.What)
}

// refuse responds to a request that no handler sees, and ends the connection. why is never text of
// the client's: nothing that it sent is echoed.
func (c *conn) refuse(status int, why string) {
	c.codec.refuse(c, status, why)
	c.reportRefusal(status, int64(len(refusal(status, why))))
	c.sendAndLinger()
}

// sendAndLinger flushes the output, and allows the client time to read it.
func (c *conn) sendAndLinger() {
	switch {
	case c.writeTimeout > 0:
		c.setWriteDeadline(time.Now().Add(c.writeTimeout))
	case c.defaultSendTimeout == 0: // no setting limits what no handler sends
		c.setWriteDeadline(time.Now().Add(c.headTimeout))
	}
	if c.flush() == nil {
		c.linger()
	}
}

// refusal returns the body of such a response.
func refusal(status int, why string) string {
	return strconv.Itoa(status) + " " + http.StatusText(status) + ": " + why
}

// linger allows the client time to read the last response while it may still be sending. It reads
// and discards what the client sends, within limits.
func (c *conn) linger() {
	if half, ok := c.nc.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	c.setReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c.nc, lingerBytes)
}
