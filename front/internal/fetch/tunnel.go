package fetch

import (
	"bufio"
	"io"
	"net"
	"net/http"
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
	pieces      *connection.Buffers
	attempt     *attempt

	timer        *time.Timer
	startTime    time.Time
	lastActivity atomic.Int64 // when bytes were copied last, in nanoseconds after startTime
	closeOnce    sync.Once
}

// NewTunnel returns the Tunnel of a response of Do with status 101, or nil if its body is no
// connection.
func NewTunnel(resp *http.Response) *Tunnel {
	b, _ := resp.Body.(*responseBody)
	if b == nil {
		return nil
	}
	upstream, ok := b.ReadCloser.(io.ReadWriteCloser)
	if !ok {
		return nil
	}
	return &Tunnel{upstream: upstream, attempt: b.attempt, idleTimeout: b.attempt.request.upstream.ReadTimeout}
}

// Run copies in both directions until one side ends, or both are silent for ReadTimeout. It closes
// both connections. first holds what the client has sent already. It returns the number of bytes
// that the client was sent. pieces are of PieceSize.
func (t *Tunnel) Run(nc net.Conn, first *bufio.Reader, pieces *connection.Buffers) (sent int64) {
	t.client, t.pieces = client.Direct(nc), pieces
	t.startTime = time.Now()
	t.attempt.waitingSince.Store(-1) // the timeout of the attempt ends
	t.timer = time.AfterFunc(farFuture, t.checkIdle)
	t.timer.Reset(t.idleTimeout) // which reads timer
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
		_, n := t.copy(t.upstream, t.client)
		toUpstream += n
		if half, ok := t.upstream.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			return
		}
		<-t.attempt.Done() // the upstream may still send
	}()
	received, sent := t.copy(t.client, t.upstream)
	t.closeBoth()
	t.attempt.finish()
	<-done
	t.attempt.Ended(toUpstream, received)
	return sent
}

// closeBoth closes both connections, which unblocks their readers and writers.
func (t *Tunnel) closeBoth() {
	t.closeOnce.Do(func() {
		t.client.Close()
		_ = t.upstream.Close()
	})
}

// copy copies in one direction, and returns the numbers of bytes read and written.
func (t *Tunnel) copy(to io.Writer, from io.Reader) (read, wrote int64) {
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
			n, failed := to.Write(b[:n])
			if wrote += int64(n); failed != nil {
				return read, wrote
			}
			t.lastActivity.Store(int64(time.Since(t.startTime)))
		}
		t.pieces.Put(b)
		if err != nil {
			return read, wrote
		}
	}
}

// checkIdle ends the tunnel after the idle timeout.
func (t *Tunnel) checkIdle() {
	left := t.idleTimeout - (time.Since(t.startTime) - time.Duration(t.lastActivity.Load()))
	if left <= 0 {
		t.closeBoth()
		return
	}
	t.timer.Reset(left)
}
