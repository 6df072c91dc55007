package testkit

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Network is a network in memory. Its connections buffer like sockets and support deadlines. They
// block in a way that testing/synctest recognizes, so tests of timeouts take no time. The zero
// value is ready to use.
type Network struct {
	once     sync.Once
	listener *memListener
}

const pipeSize = 64 << 10 // buffer size of a connection in each direction

// Listen returns the network's one listener.
func (n *Network) Listen() net.Listener { return n.listen() }

func (n *Network) listen() *memListener {
	n.once.Do(func() {
		n.listener = &memListener{accepts: make(chan net.Conn), closed: make(chan struct{})}
	})
	return n.listener
}

// Dial connects to the listener and waits until the connection is accepted.
func (n *Network) Dial() (*MemConn, error) {
	l := n.listen()
	client, server := Pair()
	select {
	case l.accepts <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Pair returns both ends of a connection in memory.
func Pair() (client, server *MemConn) {
	there, back := newPipe(), newPipe()
	return &MemConn{in: back, out: there}, &MemConn{in: there, out: back}
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

// Close closes both directions. It discards what this end has not read; the peer can still read
// what this end wrote. After the peer has read EOF, its writes fail.
func (c *MemConn) Close() error {
	c.out.close(io.EOF)
	c.in.close(net.ErrClosed)
	return nil
}

// CloseWrite ends the output. The peer reads EOF.
func (c *MemConn) CloseWrite() error {
	c.out.close(io.EOF)
	return nil
}

// Received returns the input not read yet, and whether the peer has ended its output. It does not
// wait.
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

type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond
	data    []byte
	err     error // read error once data is empty; writes fail, too

	readDeadline, writeDeadline deadline
}

func newPipe() *pipe {
	p := new(pipe)
	p.changed = sync.NewCond(&p.mu)
	return p
}

// deadline is a read or write deadline, guarded by the pipe's mutex.
type deadline struct {
	at    time.Time
	timer *time.Timer // wakes the pipe at that time
}

func (d *deadline) set(p *pipe, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.at = t; t.IsZero() {
		return
	}
	d.timer = time.AfterFunc(time.Until(t), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
}

func (d *deadline) hasPassed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readDeadline.hasPassed():
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
		case p.writeDeadline.hasPassed():
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

// close ends the direction: the writer's end passes io.EOF, the reader's end net.ErrClosed, which
// discards the data.
func (p *pipe) close(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == net.ErrClosed { //nolint:errorlint // close passes this value
		p.data, p.err = nil, err
	}
	if p.err == nil {
		p.err = err
	}
	p.changed.Broadcast()
}
