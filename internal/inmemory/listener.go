// Package inmemory is a listener whose clients are in memory. They cost no system calls, so a
// measurement shows the cost of the server itself.
package inmemory

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Load describes the clients. Each client connects, sends its requests without waiting for
// responses, and connects again when the server closes the connection.
type Load struct {
	Request  []byte // sent again and again
	Requests int    // on each connection
	Clients  int    // concurrent connections
	Total    int    // requests on all connections together; 0 is no limit
	// after this time, clients only finish their current requests; 0 is no limit
	For time.Duration

	// Responses returns a writer for a client, which receives what the server writes. If it is nil,
	// clients ignore responses. Each client has its own writer for all its connections. Only one
	// goroutine at a time calls it.
	Responses func() io.Writer
}

// Listener connects a server with the clients of a Load. It is a net.Listener. Only one goroutine
// may call Accept, which returns io.EOF when the load is over.
type Listener struct {
	load Load

	free       chan *conn
	remaining  int         // requests that are not assigned to a connection
	isTimeUp   atomic.Bool // Load.For has passed
	hasStarted bool        // a client has connected
	ended      chan struct{}
	once       sync.Once
	served     atomic.Uint64
}

// Listen starts a load. Its time starts now.
func Listen(load Load) *Listener {
	l := &Listener{load: load, free: make(chan *conn, load.Clients), remaining: load.Total, ended: make(chan struct{})}
	for range load.Clients {
		c := &conn{listener: l}
		if l.load.Responses != nil {
			c.responses = l.load.Responses()
		}
		l.free <- c
	}
	if l.load.For > 0 {
		time.AfterFunc(l.load.For, func() { l.isTimeUp.Store(true) })
	}
	return l
}

// Accept connects a client. If the load is over, it returns io.EOF, but not before it has connected
// one client.
func (l *Listener) Accept() (net.Conn, error) {
	if l.hasStarted && (l.isTimeUp.Load() || l.load.Total > 0 && l.remaining == 0) {
		l.end()
	}
	select {
	case <-l.ended:
		return nil, io.EOF
	default:
	}
	select {
	case c := <-l.free:
		c.remaining, c.offset, c.completed = l.load.Requests, 0, 0
		if l.load.Total > 0 {
			c.remaining = min(l.load.Requests, l.remaining)
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

// Addr returns an address reserved for documentation.
func (l *Listener) Addr() net.Addr { return address{} }

// Drain waits until the server has closed all connections, and returns the number of requests that
// the server has read. It returns false if that takes longer than atMost.
func (l *Listener) Drain(atMost time.Duration) (served uint64, ok bool) {
	late := time.After(atMost)
	for range l.load.Clients {
		select {
		case <-l.free:
		case <-late:
			return 0, false
		}
	}
	return l.served.Load(), true
}

// conn is the server's end of a connection. The client's next connection reuses it.
type conn struct {
	listener  *Listener
	responses io.Writer // nil if the client ignores responses
	remaining int       // requests that are not read completely
	completed int       // requests that are read completely
	offset    int       // in the current request
	isOpen    atomic.Bool
}

// Read fills p with as many requests as remain, pipelined.
func (c *conn) Read(p []byte) (int, error) {
	if c.completed > 0 && c.listener.isTimeUp.Load() {
		c.remaining = min(c.remaining, c.offset, 1) // only finish a request that has begun
	}
	n := 0
	for n < len(p) && c.remaining > 0 {
		k := copy(p[n:], c.listener.load.Request[c.offset:])
		n += k
		if c.offset += k; c.offset == len(c.listener.load.Request) {
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
