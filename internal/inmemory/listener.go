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
	Responses func() io.Writer
}

// Listener connects a server with the clients of a Load. It is a net.Listener whose
// Accept is called by one goroutine, and returns io.EOF when the load is over.
type Listener struct {
	Load

	free       chan *conn
	remaining  int         // requests that no connection has been given
	isTimeUp   atomic.Bool // the time
	hasStarted bool        // a client was connected
	ended      chan struct{}
	once       sync.Once
	served     atomic.Uint64
}

// Listen begins a load. Its time runs from now on.
func Listen(load Load) *Listener {
	l := &Listener{Load: load, free: make(chan *conn, load.Clients), remaining: load.Total, ended: make(chan struct{})}
	for range load.Clients {
		c := &conn{listener: l}
		if l.Responses != nil {
			c.responses = l.Responses()
		}
		l.free <- c
	}
	if l.For > 0 {
		time.AfterFunc(l.For, func() { l.isTimeUp.Store(true) })
	}
	return l
}

// Accept connects clients, one at least, until the load is over.
func (l *Listener) Accept() (net.Conn, error) {
	if l.hasStarted && (l.isTimeUp.Load() || l.Total > 0 && l.remaining == 0) {
		l.end()
	}
	select {
	case <-l.ended:
		return nil, io.EOF
	default:
	}
	select {
	case c := <-l.free:
		c.remaining, c.offset, c.completed = l.Requests, 0, 0
		if l.Total > 0 {
			c.remaining = min(l.Requests, l.remaining)
			l.remaining -= c.remaining
		}
		c.isOpen.Store(true)
		l.hasStarted = true
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
	listener  *Listener
	responses io.Writer // nil if nobody looks
	remaining int       // requests that are to be read to their end
	completed int       // that were
	offset    int       // in the request that is being read
	isOpen    atomic.Bool
}

// Read fills p with as many requests as there are left: they come pipelined.
func (c *conn) Read(p []byte) (int, error) {
	if c.completed > 0 && c.listener.isTimeUp.Load() {
		c.remaining = min(c.remaining, c.offset, 1) // what is begun is finished
	}
	n := 0
	for n < len(p) && c.remaining > 0 {
		k := copy(p[n:], c.listener.Request[c.offset:])
		n += k
		if c.offset += k; c.offset == len(c.listener.Request) {
			c.offset = 0
			c.remaining--
			c.completed++
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (c *conn) Write(p []byte) (int, error) {
	if c.responses == nil {
		return len(p), nil
	}
	return c.responses.Write(p)
}

func (c *conn) Close() error {
	if c.isOpen.CompareAndSwap(true, false) {
		c.listener.served.Add(uint64(c.completed))
		c.listener.free <- c
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
