package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/connection"
)

// tunnel connects a client with an upstream that has switched protocols (101), which it does only
// on request. The tunnel ends when both sides are silent for ReadTimeout, or one accepts nothing for
// its send timeout.
func (p *proxy) tunnel(x *core.Exchange, resp *http.Response) core.Outcome {
	sendTimeout := cmp.Or(x.Loc.Settings.SendTimeout, core.DefaultTimeout)
	t := fetch.NewTunnel(resp, sendTimeout)
	if t == nil {
		x.Errorf(errorlog.LevelError, "the upstream switched protocols without a connection")
		return x.Fail(http.StatusBadGateway)
	}
	header := x.Response.Header()
	nc, rw, err := http.NewResponseController(&x.Response).Hijack()
	if err != nil {
		x.Errorf(errorlog.LevelError, "the upstream switched protocols, but the client's connection cannot: %v", err)
		return x.Fail(http.StatusBadGateway)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Time{})
	stateOf(x).upstreamHeader = resp.Header
	p.response.copyHeader(x, resp.StatusCode, header, resp.Header)
	header["Connection"], header["Upgrade"] = []string{"Upgrade"}, resp.Header["Upgrade"]
	delete(header, "Content-Length")
	x.Loc.ChangeHeader(x, header, resp.StatusCode)
	if x.Response.SwitchBytes, err = writeSwitchingProtocols(nc, sendTimeout, header); err != nil {
		return core.Responded // the client has gone
	}
	if r := t.Relay(&x.Plan.State.Relay, nc, rw.Reader); r != nil {
		relayTunnel(x, r)
	} else {
		sent, why := t.Run(nc, rw.Reader, &x.Plan.State.Pieces)
		endTunnel(x, sent, why)
	}
	return core.Responded
}

// relayTunnel makes the exchange end with the tunnel. It waits for that unless the server itself
// calls the front: else a handler that calls it may count or log requests.
func relayTunnel(x *core.Exchange, r *fetch.Relayed) {
	begin := func(end func(isComplete bool)) {
		x.Response.EndWithPlan(r.Close)
		r.Begin(func(sent int64, why *fetch.TunnelError) {
			endTunnel(x, sent, why)
			end(true)
		})
	}
	_, isServers := x.Response.ResponseWriter.(connection.RawSender) // not one that a handler made
	if isServers && ownsRequest(x) {
		x.Detach(begin)
		return
	}
	done := make(chan struct{})
	begin(func(bool) { close(done) })
	<-done
}

// endTunnel counts what the client was sent, and logs why a tunnel has ended. As in nginx, only a
// failure of the upstream is an error.
func endTunnel(x *core.Exchange, sent int64, why *fetch.TunnelError) {
	x.Response.Sent += sent
	switch {
	case why == nil || errors.Is(why, net.ErrClosed): // the plan has ended it
	case why.OfClient || errors.Is(why, os.ErrDeadlineExceeded):
		x.Errorf(errorlog.LevelInfo, "%v while proxying upgraded connection", why)
	default:
		x.Errorf(errorlog.LevelError, "%v while proxying upgraded connection", why)
	}
}

// writeSwitchingProtocols sends the head of the 101 to the client, and returns its length.
func writeSwitchingProtocols(nc net.Conn, timeout time.Duration, header http.Header) (int64, error) {
	_ = nc.SetWriteDeadline(time.Now().Add(timeout))
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = header.Write(&head) // a bytes.Buffer returns no error
	head.WriteString("\r\n")
	n, err := head.WriteTo(nc)
	_ = nc.SetWriteDeadline(time.Time{})
	return n, err
}
