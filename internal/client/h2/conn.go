package h2

import (
	"net"
	"sync"
	"time"

	wire "github.com/tarehq/tare/internal/wire/http2"
)

// Host manages connections. Its methods are called without locks of the connection, and must not
// wait.
type Host interface {
	// Closing reports that the connection accepts no more streams. The host closes it when no stream is
	// left. It may be called more than once.
	Closing()
	// HasRoom reports that Reserve may succeed again after it has failed.
	HasRoom()
	// StreamClosed reports that an opened stream does not count toward the peer's limit any more. It is
	// called once for each. What has arrived of the response may still be read.
	StreamClosed()
}

// Conn is the client's end of an HTTP/2 connection. It is safe for concurrent use.
type Conn struct {
	nc     net.Conn
	config *Config
	host   Host
	input  input // of the goroutine that reads

	mu         sync.Mutex
	streams    map[uint32]*Stream
	reserved   int  // streams that Reserve has promised
	hasRefused bool // Reserve has failed
	nextID     uint32
	isClosing  bool         // no more streams are opened
	err        *Error       // why the connection has ended
	goAway     *goAwayError // of the peer; nil if none has arrived
	peer       peerSettings
	sendWindow int32
	window     wire.ReceiveWindow
	ledger     wire.Ledger
	lateBytes  int64 // DATA that may still arrive for streams that this side has reset
	output     output
	senders    int // goroutines that wait to send
	health     health
}

type peerSettings struct {
	hasArrived      bool
	arrival         chan struct{} // is closed when they arrive, or the connection ends
	maxStreams      uint32
	initialWindow   int32
	maxHeadList     uint32
	extendedConnect bool
}

// AssumedStreams is the number of concurrent streams until the peer's SETTINGS arrive, as in
// net/http, unless another connection to the peer has received them.
const AssumedStreams = 100

// New returns a connection on nc, with one stream reserved. It sends the client's settings and
// starts the goroutine that reads. maxStreams limits streams until the peer's SETTINGS arrive.
func New(nc net.Conn, config *Config, host Host, maxStreams uint32) *Conn {
	c := &Conn{
		nc: nc, config: config, host: host, streams: make(map[uint32]*Stream), reserved: 1, nextID: 1,
		peer: peerSettings{maxStreams: maxStreams, initialWindow: wire.InitialWindow, maxHeadList: 1<<32 - 1,
			arrival: make(chan struct{})},
		sendWindow: wire.InitialWindow, window: wire.NewReceiveWindow(config.ConnWindow),
	}
	opened := time.Now()
	c.ledger = wire.NewLedger(func() int64 { return time.Since(opened).Milliseconds() / 10 })
	c.input.decoder = wire.NewDecoder(int(config.TableSize))
	c.mu.Lock()
	out := append(c.output.buf, wire.Preface...)
	out = wire.AppendSettings(out,
		wire.Setting{ID: wire.EnablePush, Value: 0},
		wire.Setting{ID: wire.InitialWindowSize, Value: uint32(config.StreamWindow)},
		wire.Setting{ID: wire.MaxFrameSizeSetting, Value: config.MaxFrameSize},
		wire.Setting{ID: wire.MaxHeaderListSize, Value: uint32(config.MaxHeadBytes)},
		wire.Setting{ID: wire.HeaderTableSize, Value: config.TableSize})
	if more := config.ConnWindow - wire.InitialWindow; more > 0 {
		out = wire.AppendWindowUpdate(out, 0, uint32(more))
	}
	c.output.buf = out
	if d := config.PingAfter; d > 0 {
		c.health.arrivedAt = opened
		c.health.timer = time.AfterFunc(d, c.checkHealth)
	}
	c.flushLocked()
	c.mu.Unlock()
	go c.read()
	return c
}

// Reserve reserves a stream, and reports whether there was one. The caller must call Open or
// Unreserve. isOnly means that there is no other connection: this one is then suspect only while it
// awaits a PING's response.
func (c *Conn) Reserve(isOnly bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	isSuspect := c.health.isSuspect && (c.health.isAwaiting || !isOnly)
	if c.isClosing || isSuspect || c.output.pending() > maxPending || c.output.isStalled() ||
		int64(len(c.streams)+c.reserved) >= int64(c.peer.maxStreams) {
		c.hasRefused = true
		return false
	}
	c.reserved++
	return true
}

// IsUnused reports whether the connection has no streams besides a reserved one.
func (c *Conn) IsUnused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams)+c.reserved <= 1
}

// Settled returns a channel that is closed when the peer's SETTINGS have arrived, or the connection
// has ended.
func (c *Conn) Settled() <-chan struct{} { return c.peer.arrival }

// MaxStreams returns the peer's limit of streams.
func (c *Conn) MaxStreams() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer.maxStreams
}

// checkRoomLocked notifies the host if Reserve has failed before and may succeed now.
func (c *Conn) checkRoomLocked() {
	if c.hasRefused {
		c.hasRefused = false
		go c.host.HasRoom()
	}
}

// Unreserve returns a stream that was reserved and is not opened.
func (c *Conn) Unreserve() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved--
}

// Close ends the connection, and all of its streams. It does not wait.
func (c *Conn) Close() { c.end(&Error{Kind: Closed, Err: net.ErrClosed}, wire.NoError, true) }

// drain makes the connection accept no more streams.
func (c *Conn) drain() {
	c.mu.Lock()
	c.isClosing = true
	c.mu.Unlock()
	c.host.Closing()
}

// end ends the connection. It sends GOAWAY if tells is set.
func (c *Conn) end(err *Error, code wire.ErrorCode, tells bool) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	if c.goAway != nil && err.Kind == Closed {
		err.Err = &goAwayError{c.goAway.last, c.goAway.code, err.Err}
	}
	c.err, c.isClosing = err, true
	ended := len(c.streams)
	for _, st := range c.streams {
		st.failLocked(err)
	}
	clear(c.streams)
	if !c.peer.hasArrived {
		close(c.peer.arrival)
	}
	if t := c.health.timer; t != nil {
		t.Stop()
	}
	c.output.closeAfter = true
	deadline := time.Unix(1, 0)
	if tells {
		c.output.buf = wire.AppendGoAway(c.output.buf, 0, code)
		deadline = time.Now().Add(closeTimeout)
	} else {
		c.output.buf = nil
	}
	_ = c.nc.SetWriteDeadline(deadline)
	// the peer may read byte by byte, and the connection may lack deadlines
	time.AfterFunc(closeTimeout, func() { _ = c.nc.Close() })
	c.flushLocked()
	c.mu.Unlock()
	c.host.Closing()
	for range ended {
		c.host.StreamClosed()
	}
}

// violate ends the connection because the peer has violated the protocol.
func (c *Conn) violate(f *wire.Error) {
	if c.config.CountError != nil {
		c.config.CountError("conn_" + f.Code.String())
	}
	c.end(&Error{Kind: Malformed, Err: f}, f.Code, true)
}
