package engine

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// statuses answers each kind of malformed head.
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
		status = http.StatusRequestURITooLong // 431 is about fields
	}
	c.refuse(status, e.What)
}

// refuse answers a request that no handler will see, and ends the connection. why
// is our own text: nothing that the client sent is echoed.
func (c *conn) refuse(status int, why string) {
	c.protocol.refuse(c, status, why)
	c.report(status, int64(len(refusal(status, why))))
	c.part()
}

// part sends what is due, and gives the client time to read it.
func (c *conn) part() {
	switch {
	case c.write > 0:
		c.setWriteDeadline(time.Now().Add(c.write))
	case c.stallTime == 0: // no setting bounds what no handler sends
		c.setWriteDeadline(time.Now().Add(c.headTime))
	}
	if c.flush() == nil {
		c.linger()
	}
}

// refusal is the body of such an answer.
func refusal(status int, why string) string {
	return strconv.Itoa(status) + " " + http.StatusText(status) + ": " + why
}

// linger gives the client time to read the last answer while it may still be
// sending: what it sends is read and dropped, within bounds.
func (c *conn) linger() {
	if half, ok := c.nc.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	c.setReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c.nc, lingerBytes)
}
