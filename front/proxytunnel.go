package front

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// tunnel connects a client with an upstream that has switched protocols (101), which it does only
// on request. The tunnel ends when both sides are silent for ReadTimeout.
func (p *proxy) tunnel(x *exchange, resp *http.Response) outcome {
	upstream, ok := resp.Body.(*responseBody).ReadCloser.(io.ReadWriteCloser)
	if !ok {
		x.errorf(levelError, "the upstream switched protocols without a connection")
		return x.fail(http.StatusBadGateway)
	}
	nc, rw, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.errorf(levelError, "the upstream switched protocols, but the client's connection cannot: %v", err)
		return x.fail(http.StatusBadGateway)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Time{})
	header := make(http.Header, len(resp.Header))
	p.response.copyHeader(x, header, resp.Header)
	header["Connection"], header["Upgrade"] = []string{"Upgrade"}, resp.Header["Upgrade"]
	delete(header, "Content-Length")
	n, err := writeSwitchingProtocols(nc, p.sendTimeout, header)
	if x.out != nil {
		x.out.switchBytes = n
	}
	if err != nil {
		return responded // the client is gone
	}
	t := &tunnel{client: nc, upstream: upstream, idleTimeout: p.readTimeout, attempt: resp.Body.(*responseBody).attempt}
	t.run(rw.Reader)
	if x.out != nil {
		x.out.sent += t.sent
	}
	return responded
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

// tunnel copies in both directions between a client and an upstream.
type tunnel struct {
	client      net.Conn
	upstream    io.ReadWriteCloser
	idleTimeout time.Duration
	attempt     *attempt

	timer        *time.Timer
	startTime    time.Time
	lastActivity atomic.Int64 // when bytes were copied last, in nanoseconds after startTime
	closeOnce    sync.Once
	sent         int64 // bytes to the client, set by run
}

// run copies until one side ends, or the idle timeout passes. first holds what the client has sent
// already.
func (t *tunnel) run(first *bufio.Reader) {
	t.startTime = time.Now()
	t.attempt.waitingSince.Store(-1) // the timeout of the attempt ends
	t.timer = time.AfterFunc(farFuture, t.checkIdle)
	t.timer.Reset(t.idleTimeout) // which reads timer
	defer t.timer.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.closeBoth()
		if n := first.Buffered(); n > 0 {
			b, _ := first.Peek(n)
			if _, err := t.upstream.Write(b); err != nil {
				return
			}
		}
		_ = t.copy(t.upstream, t.client)
		if half, ok := t.upstream.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			return
		}
		<-t.attempt.Done() // the upstream may still send
	}()
	t.sent = t.copy(t.client, t.upstream)
	t.closeBoth()
	t.attempt.finish(false)
	<-done
}

// closeBoth closes both connections, which unblocks their readers and writers.
func (t *tunnel) closeBoth() {
	t.closeOnce.Do(func() {
		t.client.Close()
		closeQuietly(t.upstream)
	})
}

// copy copies in one direction, and returns the number of bytes written.
func (t *tunnel) copy(to io.Writer, from io.Reader) (wrote int64) {
	b := make([]byte, relayPiece)
	for {
		n, err := from.Read(b)
		if n > 0 {
			t.lastActivity.Store(int64(time.Since(t.startTime)))
			n, failed := to.Write(b[:n])
			if wrote += int64(n); failed != nil {
				return wrote
			}
			t.lastActivity.Store(int64(time.Since(t.startTime)))
		}
		if err != nil {
			return wrote
		}
	}
}

// checkIdle ends the tunnel after the idle timeout.
func (t *tunnel) checkIdle() {
	left := t.idleTimeout - (time.Since(t.startTime) - time.Duration(t.lastActivity.Load()))
	if left <= 0 {
		t.closeBoth()
		return
	}
	t.timer.Reset(left)
}
