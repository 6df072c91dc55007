package proxy

import (
	"bytes"
	"net"
	"net/http"
	"time"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
)

// tunnel connects a client with an upstream that has switched protocols (101), which it does only
// on request. The tunnel ends when both sides are silent for ReadTimeout.
func (p *proxy) tunnel(x *core.Exchange, resp *http.Response) core.Outcome {
	t := fetch.NewTunnel(resp)
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
	p.response.copyHeader(x, resp.StatusCode, header, resp.Header)
	header["Connection"], header["Upgrade"] = []string{"Upgrade"}, resp.Header["Upgrade"]
	delete(header, "Content-Length")
	x.Loc.Filters.ChangeHeader(x, header, resp.StatusCode)
	if x.Response.SwitchBytes, err = writeSwitchingProtocols(nc, p.upstream.SendTimeout, header); err != nil {
		return core.Responded // the client has gone
	}
	if r := t.Relay(&x.Plan.State.Relay, nc, rw.Reader); r != nil {
		relayTunnel(x, r)
	} else {
		x.Response.Sent += t.Run(nc, rw.Reader, &x.Plan.State.Pieces)
	}
	return core.Responded
}

// relayTunnel makes the exchange end with the tunnel. It waits for that unless the server itself
// calls the front: else a handler that calls it may count or log requests.
func relayTunnel(x *core.Exchange, r *fetch.Relayed) {
	begin := func(end func()) {
		x.Response.EndWithPlan(r.Close)
		r.Begin(func(sent int64) {
			x.Response.Sent += sent
			end()
		})
	}
	if ownsRequest(x) {
		x.Detach(begin)
		return
	}
	done := make(chan struct{})
	begin(func() { close(done) })
	<-done
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
