package testkit

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Network is a network in memory. Its connections buffer like a socket, honour
// deadlines, and block in a way that testing/synctest understands, so that tests
// of time take none. The zero value is ready.
type Network struct {
	mu       sync.Mutex
	listener *memListener
}

// pipeSize is how many bytes a connection holds in each direction.
const pipeSize = 64 << 10

// Listen returns the network's one listener.
func (n *Network) Listen() net.Listener { return n.listen() }

func (n *Network) listen() *memListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener == nil {
		n.listener = &memListener{accepts: make(chan net.Conn), closed: make(chan struct{})}
	}
	return n.listener
}

// Dial connects to the listener. It waits until the connection is accepted.
func (n *Network) Dial() (*MemConn, error) {
	l := n.listen()
	there, back := newPipe(), newPipe()
	client, server := &MemConn{in: back, out: there}, &MemConn{in: there, out: back}
	select {
	case l.accepts <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

type memListener struct {
	accepts chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepts:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memListener) Addr() net.Addr { return memAddr{} }

type memAddr struct{}

func (memAddr) Network() string { return "mem" }
func (memAddr) String() string  { return "mem:1" }

// MemConn is one end of a connection in memory.
type MemConn struct{ in, out *pipe }

var _ net.Conn = (*MemConn)(nil)

func (c *MemConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *MemConn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close closes both directions. What this end did not read is lost; what it wrote can
// still be read at the other end. Whoever learns of it by Read cannot write any more.
func (c *MemConn) Close() error {
	c.out.close(io.EOF)
	c.in.close(net.ErrClosed)
	return nil
}

// CloseWrite tells the other end that nothing more comes.
func (c *MemConn) CloseWrite() error {
	c.out.close(io.EOF)
	return nil
}

// Received returns what has arrived and was not read, and whether the other end
// has said that nothing more comes. It does not wait.
func (c *MemConn) Received() (data []byte, eof bool) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	data = c.in.data
	c.in.data = nil
	c.in.changed.Broadcast()
	return data, c.in.err != nil
}

func (c *MemConn) LocalAddr() net.Addr  { return memAddr{} }
func (c *MemConn) RemoteAddr() net.Addr { return memAddr{} }

func (c *MemConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *MemConn) SetReadDeadline(t time.Time) error {
	c.in.readDeadline.set(c.in, t)
	return nil
}

func (c *MemConn) SetWriteDeadline(t time.Time) error {
	c.out.writeDeadline.set(c.out, t)
	return nil
}

// pipe is one direction of a connection.
type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond
	data    []byte
	err     error // what a reader gets once data is empty; it also stops a writer

	readDeadline, writeDeadline deadline
}

func newPipe() *pipe {
	p := new(pipe)
	p.changed = sync.NewCond(&p.mu)
	return p
}

// limit is a deadline. Its fields are guarded by the pipe's mutex.
type deadline struct {
	passed bool
	timer  *time.Timer
}

func (l *deadline) set(p *pipe, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.passed = nil, false
	if t.IsZero() {
		return
	}
	if d := time.Until(t); d > 0 {
		var timer *time.Timer
		timer = time.AfterFunc(d, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if l.timer == timer {
				l.passed = true
				p.changed.Broadcast()
			}
		})
		l.timer = timer
		return
	}
	l.passed = true
	p.changed.Broadcast()
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readDeadline.passed:
			return 0, os.ErrDeadlineExceeded
		case len(p.data) > 0:
			n := copy(b, p.data)
			p.data = p.data[n:]
			p.changed.Broadcast()
			return n, nil
		case p.err != nil:
			return 0, p.err
		}
		p.changed.Wait()
	}
}

func (p *pipe) write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.err != nil:
			return n, io.ErrClosedPipe
		case p.writeDeadline.passed:
			return n, os.ErrDeadlineExceeded
		}
		k := min(len(b), pipeSize-len(p.data))
		p.data = append(p.data, b[:k]...)
		n += k
		if k > 0 {
			p.changed.Broadcast()
		}
		if b = b[k:]; len(b) == 0 {
			return n, nil
		}
		p.changed.Wait()
	}
}

// close ends the direction: with io.EOF from the writer's end, with net.ErrClosed from
// the reader's, who gets nothing more.
func (p *pipe) close(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == net.ErrClosed { //nolint:errorlint // our own value
		p.data, p.err = nil, err
	}
	if p.err == nil {
		p.err = err
	}
	p.changed.Broadcast()
}
