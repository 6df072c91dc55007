package h2

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	wire "github.com/tarehq/tare/internal/wire/http2"
)

// Session is one HTTP/2 connection. Its states:
//
//	preface ──preface, SETTINGS──▶ open
//	open ──Shutdown, Retire, Connection: close──▶ announced (GOAWAY for all streams, and a PING)
//	announced ──acknowledgment or GoAwayTime──▶ draining (GOAWAY for the last stream)
//	draining ──last stream ends──▶ ended
//	any ──connection error, flood──▶ ended (GOAWAY with the error)
//	any ──connection closed──▶ ended
//
// The carrier closes the connection of an ended session once the output was sent.
//
// Requests that are under way when the client has not yet received the first GOAWAY are served. The
// client's acknowledgment shows that it knows.
type Session struct {
	config   *Config
	carrier  Carrier
	waiter   RoomWaiter    // the carrier; nil if its Send blocks
	template *http.Request // what all requests of the connection share
	Turn     Turn

	// State of the input; the holder of the turn uses it.
	input     inputState
	ready     []*Stream // whose heads are complete
	nextReady int       // index in ready of the first stream whose handler has not begun
	decoder   wire.Decoder
	highestID uint32 // of the streams that the client has opened
	started   time.Time

	mu          sync.Mutex
	lastID      uint32 // of the streams that were or may be processed
	streams     map[uint32]*Stream
	mostStreams int           // the most that streams has held; a map never shrinks
	resets      []resetStream // the last streams that the server has reset, the oldest first
	running     int           // streams whose handlers have not returned, also of those that were reset
	headBytes   int           // of their decoded heads
	keptBodies  int           // bytes of bodies that handlers of ended streams can still read
	phase       phase
	endingAt    time.Time // when the current phase of ending began; zero while an ended session sends
	ledger      wire.Ledger
	windows     connWindows
	peer        peerSettings
	output      outputState
	idleAt      time.Time // since when there has been no stream
	ping        pingState
	isOpen      bool      // the preface and SETTINGS have arrived; only the holder of the turn changes it
	ownDeadline bool      // a handler has set a write deadline since the session was idle
	isGathering bool      // a goroutine is going to send the responses that are appended
	ungathered  int       // how many responses are sent at once; see Stream.Settle
	headStarted time.Time // when the incomplete frame or block began; zero if there is none
	requests    atomic.Int64
	reports     atomic.Int32 // that have not returned
}

// phase is a session's state.
type phase uint8

const (
	phaseOpen phase = iota
	phaseAnnounced
	phaseDraining
	phaseEnded
)

// peerSettings are what the client has set (RFC 9113, 6.5.2).
type peerSettings struct {
	initialWindow int32
	unacked       int // SETTINGS of the server that it has not acknowledged
}

// Errors that handlers receive when they read or write.
var (
	errStreamClosed = errors.New("http2: stream closed")
	errClientLeft   = errors.New("http2: client disconnected")
	errShortBody    = errors.New("http2: body shorter than Content-Length")
)

// PrefaceSize is the number of bytes of the preface.
const PrefaceSize = len(wire.Preface)

// BeginsPreface reports whether in begins with HTTP/2's preface, or is a part of it.
func BeginsPreface(in []byte) (whole, partly bool) {
	n := min(len(in), len(wire.Preface))
	if string(in[:n]) != wire.Preface[:n] {
		return false, false
	}
	return n == len(wire.Preface), n < len(wire.Preface)
}

// New returns a session for a connection that is about to send the preface, and queues the server's
// SETTINGS. state is nil without TLS.
func New(p *Config, carrier Carrier, state *tls.ConnectionState) *Session {
	s := &Session{
		config: p, carrier: carrier, streams: make(map[uint32]*Stream),
		template: &http.Request{Proto: "HTTP/2.0", ProtoMajor: 2, TLS: state},
	}
	s.waiter, _ = carrier.(RoomWaiter)
	if a := carrier.Connection().RemoteAddr(); a != nil {
		s.template.RemoteAddr = a.String()
	}
	s.started = time.Now()
	s.idleAt, s.ping.receivedAt = s.started, s.started
	s.ledger = wire.NewLedger(func() int64 { return time.Since(s.started).Milliseconds() / 10 })
	s.decoder = wire.NewDecoder(int(p.tableSize))
	s.windows = connWindows{send: wire.InitialWindow, receive: wire.NewReceiveWindow(p.connWindow)}
	s.peer = peerSettings{initialWindow: wire.InitialWindow, unacked: 1}
	s.output.out = wire.AppendSettings(s.output.out, p.settings()...)
	if more := p.connWindow - wire.InitialWindow; more > 0 {
		s.output.out = wire.AppendWindowUpdate(s.output.out, 0, uint32(more))
	}
	return s
}

// Rejection returns what a server sends first and last over a connection whose security does not
// suffice (RFC 9113, 9.2).
func Rejection() []byte {
	return wire.AppendGoAway(wire.AppendSettings(nil), 0, wire.InadequateSecurity)
}

// IsIdle reports whether the client waits for no response.
func (s *Session) IsIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isIdleLocked()
}

func (s *Session) isIdleLocked() bool { return s.running == 0 && len(s.streams) == 0 }

// fail ends the session because of a connection error (RFC 9113, 5.4.1). The streams end at once.
func (s *Session) fail(f *wire.Error) {
	if s.config.countError != nil {
		s.config.countError("conn_" + f.Code.String())
	}
	s.mu.Lock()
	var ended []*Stream
	if s.phase < phaseEnded {
		s.output.out = wire.AppendGoAway(s.output.out, s.lastID, f.Code)
		s.endingAt = time.Now()
		ended = s.endStreamsLocked(errClientLeft)
		s.phase = phaseEnded
	}
	s.mu.Unlock()
	cancelAll(ended)
}

// Closed is called when the connection has ended. Handlers that still run learn of it.
func (s *Session) Closed() {
	s.mu.Lock()
	s.phase = phaseEnded
	s.output.failed = net.ErrClosed
	ended := s.endStreamsLocked(errClientLeft)
	s.mu.Unlock()
	cancelAll(ended)
}

// endStreamsLocked ends all streams and returns them. The caller then cancels their contexts.
func (s *Session) endStreamsLocked(err error) (ended []*Stream) {
	for id, st := range s.streams {
		st.keepsBody = st.inEnded
		st.closeLocked(err)
		delete(s.streams, id)
		ended = append(ended, st)
	}
	return ended
}

// cancelAll cancels the contexts of streams. The caller does not hold the session's mutex, which a
// context's mutex precedes.
func cancelAll(streams []*Stream) {
	for _, st := range streams {
		st.abort()
	}
}
