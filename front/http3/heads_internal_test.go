//go:build linux

package http3

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3/qlog"

	quicserver "github.com/tarehq/tare/front/internal/quic"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/testkit"
)

// streamBody is a request's body, as quic-go has it.
type streamBody struct {
	io.ReadCloser
	id quic.StreamID
}

func (b streamBody) StreamID() quic.StreamID { return b.id }

// However late handlers start on a busy machine, their requests are not reported as rejected, too, and
// those that are reported are not served. A client may have as many as the connection has streams, and
// once more after it has canceled them.
func TestLateHandlersAreNoRejections(t *testing.T) {
	t.Parallel()
	const streams, late = 100, 4 * time.Second
	s := start(t, nil, listenUDP(t))
	testkit.Must(t, newEchoing(t, s.conn.LocalAddr()).check())
	open, rejected := s.one(t), 0
	c := &connection{quic: open.quic, server: open.server, config: &quicserver.Config{
		Listener: &nginxconf.Listener{HTTP3Streams: streams},
		Rejected: func(*http.Request, string, int, int64) { rejected++ }}}
	c.heads.init(c)
	fields := []qlog.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: "localhost"}, {Name: ":path", Value: "/"}}
	for n := range 2 * streams {
		c.heads.arrive(quic.StreamID(4*n), fields)
	}
	for i := range c.heads.waiting {
		c.heads.waiting[i].arrived = time.Now().Add(-late)
	}
	c.heads.rejectOld()
	for n := range 2 * streams {
		c.heads.serve(&http.Request{Body: streamBody{http.NoBody, quic.StreamID(4 * n)}})()
	}
	c.heads.end()
	testkit.Equal(t, rejected, 0, "requests with a handler that are reported as rejected")
	for n := range 2*streams + 1 {
		c.heads.arrive(quic.StreamID(4*n), fields)
	}
	testkit.Equal(t, rejected, 1, "rejected heads")
	testkit.Equal(t, len(c.heads.waiting), 2*streams, "heads that wait")
	c.heads.end()
	testkit.Equal(t, rejected, 2*streams+1, "rejected heads at the end of the connection")
	defer func() {
		testkit.Equal(t, recover(), any(http.ErrAbortHandler), "a request that is reported as rejected")
	}()
	c.heads.serve(&http.Request{Body: streamBody{http.NoBody, 0}})
}
