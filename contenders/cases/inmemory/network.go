package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// network is a listener whose clients are in memory. There are a number of them; each
// connects, sends its requests without waiting for answers, which nobody reads, and
// connects again when the server has closed the connection. When the time is over they
// finish what they are sending, and that is all.
type network struct {
	request  []byte
	requests int // for each connection

	free   chan *conn
	over   atomic.Bool // the time
	begun  bool        // a client was connected
	ended  chan struct{}
	once   sync.Once
	served atomic.Uint64
}

func newNetwork(request []byte, requests, clients int, d time.Duration) *network {
	n := &network{request: request, requests: requests, free: make(chan *conn, clients), ended: make(chan struct{})}
	time.AfterFunc(d, func() { n.over.Store(true) })
	for range clients {
		n.free <- &conn{network: n}
	}
	return n
}

// Accept connects clients, one at least, until the time is over. It is called by one
// goroutine.
func (n *network) Accept() (net.Conn, error) {
	if n.begun && n.over.Load() {
		n.end()
	}
	select {
	case <-n.ended:
		return nil, io.EOF
	default:
	}
	select {
	case c := <-n.free:
		c.left, c.at, c.done = n.requests, 0, 0
		c.open.Store(true)
		n.begun = true
		return c, nil
	case <-n.ended:
		return nil, io.EOF
	}
}

func (n *network) end() { n.once.Do(func() { close(n.ended) }) }

func (n *network) Close() error {
	n.end()
	return nil
}

func (n *network) Addr() net.Addr { return address{} }

// drain waits until the server has closed all connections, and returns how many
// requests it took. It reports false when that takes too long.
func (n *network) drain(clients int, atMost time.Duration) (served uint64, ok bool) {
	late := time.After(atMost)
	for range clients {
		select {
		case <-n.free:
		case <-late:
			return 0, false
		}
	}
	return n.served.Load(), true
}

// conn is the server's end of a connection. It is used again for the client's next.
type conn struct {
	network *network
	left    int // requests that are to be read to their end
	done    int // that were
	at      int // in the request that is being read
	open    atomic.Bool
}

// Read fills p with as many requests as there are left: they come pipelined.
func (c *conn) Read(p []byte) (int, error) {
	if c.done > 0 && c.network.over.Load() {
		c.left = min(c.left, c.at, 1) // what is begun is finished
	}
	n := 0
	for n < len(p) && c.left > 0 {
		k := copy(p[n:], c.network.request[c.at:])
		n += k
		if c.at += k; c.at == len(c.network.request) {
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

func (c *conn) Write(p []byte) (int, error) { return len(p), nil }

func (c *conn) Close() error {
	if c.open.CompareAndSwap(true, false) {
		c.network.served.Add(uint64(c.done))
		c.network.free <- c
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
