package fetch

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/connection"
)

// Tunnel is the connection to an upstream that has switched protocols (101).
type Tunnel struct {
	client      net.Conn
	upstream    io.ReadWriteCloser
	idleTimeout time.Duration
	sendTimeout [2]time.Duration // of sides
	pieces      *connection.Buffers
	attempt     *attempt

	timer        *time.Timer
	startTime    time.Time
	lastActivity atomic.Int64   // when bytes were copied last, in nanoseconds after startTime
	sending      [2]atomic.Bool // to sides
	closeOnce    sync.Once
	why          atomic.Pointer[TunnelError]
}

// TunnelError is why a tunnel has ended, if that is neither the end of its upstream nor Close.
type TunnelError struct {
	OfClient bool // else it is the upstream's
	Err      error
}

func (e *TunnelError) Error() string {
	if e.OfClient {
		return "client: " + e.Err.Error()
	}
	return "upstream: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *TunnelError) Unwrap() error { return e.Err }

// side is one of a tunnel's two.
type side int

const (
	clientSide side = iota
	upstreamSide
)

// fail records why the tunnel ends. The first error counts.
func (t *Tunnel) fail(s side, err error) {
	t.why.CompareAndSwap(nil, &TunnelError{s == clientSide, err})
}

// NewTunnel returns the Tunnel of a response of Do with status 101, or nil if its body is no
// connection. The tunnel ends if its client accepts nothing for sendTimeout.
func NewTunnel(resp *http.Response, sendTimeout time.Duration) *Tunnel {
	b, _ := resp.Body.(*responseBody)
	if b == nil {
		return nil
	}
	upstream, ok := b.ReadCloser.(io.ReadWriteCloser)
	if !ok {
		return nil
	}
	u := b.attempt.request.upstream
	return &Tunnel{upstream: upstream, attempt: b.attempt, idleTimeout: min(u.ReadTimeout, farFuture),
		sendTimeout: [...]time.Duration{clientSide: sendTimeout, upstreamSide: u.SendTimeout}}
}

// timeout returns how long the tunnel may be silent while output for the sides waits.
func (t *Tunnel) timeout(client, upstream bool) time.Duration {
	most := t.idleTimeout
	if client {
		most = min(most, t.sendTimeout[clientSide])
	}
	if upstream {
		most = min(most, t.sendTimeout[upstreamSide])
	}
	return most
}

// Run copies in both directions until one side ends, both are silent for ReadTimeout, or one accepts
// nothing for its send timeout. It closes both connections. first holds what the client has sent
// already. It returns the number of bytes that the client was sent, and why the tunnel has ended,
// nil or a *TunnelError. pieces are of PieceSize.
func (t *Tunnel) Run(nc net.Conn, first *bufio.Reader, pieces *connection.Buffers) (sent int64, why *TunnelError) {
	t.client, t.pieces = client.Direct(nc), pieces
	t.startTime = time.Now()
	t.attempt.waitingSince.Store(-1) // the timeout of the attempt ends
	t.timer = time.AfterFunc(farFuture, t.checkIdle)
	t.timer.Reset(t.timeout(true, true)) // which reads timer
	defer t.timer.Stop()
	done := make(chan struct{})
	var toUpstream int64
	go func() {
		defer close(done)
		defer t.closeBoth()
		if n := first.Buffered(); n > 0 {
			b, _ := first.Peek(n)
			n, err := t.upstream.Write(b)
			if toUpstream = int64(n); err != nil {
				return
			}
		}
		_, n := t.copy(t.upstream, t.client, upstreamSide)
		toUpstream += n
		if half, ok := t.upstream.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			return
		}
		<-t.attempt.Done() // the upstream may still send
	}()
	received, sent := t.copy(t.client, t.upstream, clientSide)
	t.closeBoth()
	t.attempt.end(false)
	<-done
	t.attempt.Ended(toUpstream, received)
	return sent, t.why.Load()
}

// closeBoth closes both connections, which unblocks their readers and writers.
func (t *Tunnel) closeBoth() {
	t.closeOnce.Do(func() {
		t.client.Close()
		_ = t.upstream.Close()
	})
}

// copy copies to a side, and returns the numbers of bytes read and written.
func (t *Tunnel) copy(to io.Writer, from io.Reader, toSide side) (read, wrote int64) {
	awaiter, _ := from.(connection.InputAwaiter)
	for {
		if awaiter != nil {
			awaiter.AwaitInput() // most websockets wait, and need no buffer meanwhile
		}
		b := t.pieces.Get(PieceSize)
		n, err := from.Read(b)
		if n > 0 {
			read += int64(n)
			t.lastActivity.Store(int64(time.Since(t.startTime)))
			t.sending[toSide].Store(true)
			n, failed := to.Write(b[:n])
			t.sending[toSide].Store(false)
			if wrote += int64(n); failed != nil {
				t.fail(toSide, failed)
				return read, wrote
			}
			t.lastActivity.Store(int64(time.Since(t.startTime)))
		}
		t.pieces.Put(b)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.fail(1-toSide, err)
			}
			return read, wrote
		}
	}
}

// checkIdle ends the tunnel after the idle timeout.
func (t *Tunnel) checkIdle() {
	toClient, toUpstream := t.sending[clientSide].Load(), t.sending[upstreamSide].Load()
	left := t.timeout(toClient, toUpstream) - (time.Since(t.startTime) - time.Duration(t.lastActivity.Load()))
	if left <= 0 {
		t.fail(silentSide(toClient, toUpstream), os.ErrDeadlineExceeded)
		t.closeBoth()
		return
	}
	t.timer.Reset(min(left, t.timeout(true, true)))
}

// silentSide returns the side that is blamed for a timeout.
func silentSide(toClient, toUpstream bool) side {
	if toClient && !toUpstream {
		return clientSide
	}
	return upstreamSide
}
