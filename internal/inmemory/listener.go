// Package inmemory is a listener whose clients are in memory: they cost a server no
// system call, so that what remains is what the server itself costs.
package inmemory

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Load is what the clients do. Each connects, sends its requests without waiting for
// answers, and connects again when the server has closed the connection.
type Load struct {
	Request  []byte        // what is sent, again and again
	Requests int           // on each connection
	Clients  int           // connections at a time
	Total    int           // requests on all connections together; 0 is no bound
	For      time.Duration // after which clients finish what they are sending; 0 is no bound

	// Answers makes what a client reads with: it is given what the server writes. Nil is
	// a client that does not look. Each client has its own, which one goroutine calls at a
	// time, and keeps it for all its connections.
	Answers func() io.Writer
}

// Listener connects a server with the clients of a Load. It is a net.Listener whose
// Accept is called by one goroutine, and returns io.EOF when the load is over.
type Listener struct {
	Load

	free   chan *conn
	rest   int         // requests that no connection has been given
	over   atomic.Bool // the time
	begun  bool        // a client was connected
	ended  chan struct{}
	once   sync.Once
	served atomic.Uint64
}

// Listen begins a load. Its time runs from now on.
func Listen(load Load) *Listener {
	l := &Listener{Load: load, free: make(chan *conn, load.Clients), rest: load.Total, ended: make(chan struct{})}
	for range load.Clients {
		c := &conn{of: l}
		if l.Answers != nil {
			c.answers = l.Answers()
		}
		l.free <- c
	}
	if l.For > 0 {
		time.AfterFunc(l.For, func() { l.over.Store(true) })
	}
	return l
}

// Accept connects clients, one at least, until the load is over.
func (l *Listener) Accept() (net.Conn, error) {
	if l.begun && (l.over.Load() || l.Total > 0 && l.rest == 0) {
		l.end()
	}
	select {
	case <-l.ended:
		return nil, io.EOF
	default:
	}
	select {
	case c := <-l.free:
		c.left, c.at, c.done = l.Requests, 0, 0
		if l.Total > 0 {
			c.left = min(l.Requests, l.rest)
			l.rest -= c.left
		}
		c.open.Store(true)
		l.begun = true
		return c, nil
	case <-l.ended:
		return nil, io.EOF
	}
}

func (l *Listener) end() { l.once.Do(func() { close(l.ended) }) }

// Close ends the load.
func (l *Listener) Close() error {
	l.end()
	return nil
}

// Addr returns an address for documentation, which nobody listens on.
func (l *Listener) Addr() net.Addr { return address{} }

// Drain waits until the server has closed all connections, and returns how many
// requests it took. It reports false when that takes too long.
func (l *Listener) Drain(atMost time.Duration) (served uint64, ok bool) {
	late := time.After(atMost)
	for range l.Clients {
		select {
		case <-l.free:
		case <-late:
			return 0, false
		}
	}
	return l.served.Load(), true
}

// conn is the server's end of a connection. It is used again for the client's next.
type conn struct {
	of      *Listener
	answers io.Writer // nil if nobody looks
	left    int       // requests that are to be read to their end
	done    int       // that were
	at      int       // in the request that is being read
	open    atomic.Bool
}

// Read fills p with as many requests as there are left: they come pipelined.
func (c *conn) Read(p []byte) (int, error) {
	if c.done > 0 && c.of.over.Load() {
		c.left = min(c.left, c.at, 1) // what is begun is finished
	}
	n := 0
	for n < len(p) && c.left > 0 {
		k := copy(p[n:], c.of.Request[c.at:])
		n += k
		if c.at += k; c.at == len(c.of.Request) {
			c.at = 0
			c.left--
			c.done++
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (c *conn) Write(p []byte) (int, error) {
	if c.answers == nil {
		return len(p), nil
	}
	return c.answers.Write(p)
}

func (c *conn) Close() error {
	if c.open.CompareAndSwap(true, false) {
		c.of.served.Add(uint64(c.done))
		c.of.free <- c
	}
	return nil
}

func (c *conn) LocalAddr() net.Addr              { return address{} }
func (c *conn) RemoteAddr() net.Addr             { return address{} }
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

type address struct{}

func (address) Network() string { return "memory" }
func (address) String() string  { return "192.0.2.1:80" }
