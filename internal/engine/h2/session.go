package h2

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
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
	waiter   RoomWaiter         // the carrier; nil if its Send blocks
	conn     exchange.Transport // beneath the carrier
	template *http.Request      // what all requests of the connection share
	Turn     Turn

	// State of the input; the holder of the turn uses it.
	input     inputState
	ready     []*Stream // whose heads are complete
	nextReady int       // index in ready of the first stream whose handler has not begun
	decoder   wire.Decoder
	highestID uint32 // of the streams that the client has opened

	mu            sync.Mutex
	lastID        uint32 // of the streams that were or may be processed
	streams       map[uint32]*Stream
	initialWindow int32 // of streams, as the client has set it
	mostStreams   int   // the most that streams has held; a map never shrinks
	lateBytes     int64 // of DATA that may still arrive for streams that the server has reset
	lateTrailers  int   // the trailer sections that may
	running       int   // streams whose handlers have not returned, also of those that were reset
	headBytes     int   // of their decoded heads
	keptBodies    int   // bytes of bodies that handlers of ended streams can still read
	phase         phase
	endingAt      time.Time // when the current phase of ending began; zero while a drained session sends
	ledger        wire.Ledger
	sendWindow    int32
	window        wire.ReceiveWindow
	output        outputState
	idleAt        time.Time // since when there has been no stream
	receivedAt    time.Time // when the last frame arrived
	pingedAt      time.Time // when a PING was sent to a silent client; zero once it was acknowledged
	isOpen        bool      // the preface and SETTINGS have arrived; only the holder of the turn changes it
	ownDeadline   bool      // a handler has set a write deadline since the session was idle
	isGathering   bool      // a goroutine is going to send the responses that are appended
	ungathered    int       // how many responses are sent at once; see Stream.Settle
	headStarted   time.Time // of the preface, or an incomplete frame or block; else zero
	requests      atomic.Int64
	reports       atomic.Int32 // that have not returned
}

type phase uint8

const (
	phaseOpen phase = iota
	phaseAnnounced
	phaseDraining
	phaseEnded
)

// GoAwayTime is how long an announced end waits for the client's acknowledgment, and how long an
// ended connection stays open for the client to read the last frames.
const GoAwayTime = time.Second

// inputState is the state of the parser. DATA is processed as it arrives. An incomplete frame of
// another type is kept in partial.
type inputState struct {
	prefix  int    // bytes of the preface that have arrived
	partial []byte // the start of an incomplete frame
	skip    int    // bytes of the current frame that are ignored, after the content of DATA

	data dataState

	block        []byte           // the head block of a HEADERS frame, while CONTINUATION frames follow
	blockHead    wire.FrameHeader // the header of that frame; zero if no CONTINUATION follows
	blockFault   *wire.Error      // the fault of that frame, which resets the stream once the block is decoded
	fragments    int              // CONTINUATION frames of the block
	hasCompleted bool             // the last input has completed a frame
}

// dataState tracks the DATA frame that is being received.
type dataState struct {
	stream *Stream
	left   int  // bytes of content that are missing
	ends   bool // the frame has END_STREAM
}

// outputState holds what a session has yet to send. Session.mu guards it.
type outputState struct {
	out       []byte     // complete frames
	replies   int        // how many bytes of out reply to the client's frames
	sending   []byte     // the frames before those of out
	sent      int        // how many bytes of sending the connection has accepted
	lent      *outBuffer // from Config.buffers, while the session is not idle
	isSending bool       // a goroutine sends
	isOver    bool       // carrier.End was called
	stalledAt time.Time  // since when the connection has accepted nothing; zero if it does
	failed    error      // why nothing more can be sent
	reserved  int        // bytes of DATA that streams may append; see Stream.reserveLocked
	unacked   int        // SETTINGS of the client that wait for what was reserved before them
	waiting   []*Stream  // streams that wait for windows or for room
}

// Stream is a request and its response on a session: what exchange has of a protocol, for one
// exchange. Handlers may keep it by a context, so that it is never reused.
//
// Its states are those of RFC 9113, 5.1, as seen by the server. It is in Session.streams while it
// is open or half-closed, and isClosed afterwards. Its handler may still run then.
type Stream struct {
	session    *Session
	exchange   *exchange.Exchange
	id         uint32
	headBytes  uint32 // of the decoded head
	blockBytes uint32 // of the encoded head
	framing    framing
	host       Host   // of the handler, or nil
	token      uint64 // of the turn during which the handler runs; 0 if it runs elsewhere

	// The session's mutex guards the rest.
	urgency     uint8
	incremental bool
	isClosed    bool
	inEnded     bool  // the client has sent END_STREAM; if isClosed, the body can still be read, too
	dropsBody   bool  // the handler reads the body no more
	granted     bool  // reserveLocked may return
	isPinged    bool  // a PING has followed the early response
	err         error // why it was closed

	sendWindow    int32 // may be negative
	window        wire.ReceiveWindow
	writeDeadline time.Time
	wants         int // bytes that reserveLocked waits for
	reserved      int // bytes that reserveLocked has granted and that were not appended yet

	body         bytes.Buffer // DATA that has not been read
	declared     int64        // by Content-Length; -1 if unknown
	received     int64
	trailer      http.Header
	readDeadline time.Time

	timer               *time.Timer   // calls expire at writeDeadline, or checkHalfClosed
	readWake, writeWake chan struct{} // made by the first call that waits
}

// framing locates what is incomplete in the conn's output, which the final head begins: an interim
// head that is being appended, and body bytes at the end. Flush makes DATA frames of them once it
// has reserved windows. Offsets are one too large; 0 stands for none.
type framing struct {
	interim  int32
	data     int32
	hasEnded bool // the body has ended
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
// SETTINGS. The carrier is above conn. state is nil without TLS.
func New(p *Config, carrier Carrier, conn exchange.Transport, remote string, state *tls.ConnectionState) *Session {
	now := time.Now()
	s := &Session{
		config: p, carrier: carrier, conn: conn, streams: make(map[uint32]*Stream),
		template:    &http.Request{Proto: "HTTP/2.0", ProtoMajor: 2, RemoteAddr: remote, TLS: state},
		headStarted: now, receivedAt: now, idleAt: now,
		ledger:     wire.NewLedger(func() int64 { return time.Since(now).Milliseconds() / 10 }),
		decoder:    wire.NewDecoder(int(p.tableSize)),
		sendWindow: wire.InitialWindow, initialWindow: wire.InitialWindow, window: wire.NewReceiveWindow(p.connWindow),
	}
	s.waiter, _ = carrier.(RoomWaiter)
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

// isOnTurn reports whether the handler runs in the goroutine that holds the turn.
func (st *Stream) isOnTurn() bool { return st.token != 0 && st.session.Turn.IsHeld(st.token) }

// isIdleStream reports whether a stream was never opened (RFC 9113, 5.1). The server opens none: its
// streams would have even identifiers. The caller holds the turn.
func (s *Session) isIdleStream(id uint32) bool { return id > s.highestID || id > 0 && id%2 == 0 }

// Turn decides which goroutine serves a session. Its states are numbers that only grow:
//
//	even, held ──Enter──▶ odd, in a handler ──Leave──▶ even, held by the same goroutine
//	odd, in a handler ──TakeOver──▶ even, held by another goroutine
//
// While the holder runs a handler, which may block, another goroutine may take the turn over. The
// first one notices when Leave fails. No number is used twice, so that it cannot mistake the turn
// of a later holder for its own.
type Turn struct{ word atomic.Uint64 }

// Enter is called by the holder before it runs a handler.
func (t *Turn) Enter() (token uint64) { return t.word.Add(1) }

// Leave is called after the handler has returned. It reports whether the caller still holds the
// turn.
func (t *Turn) Leave(token uint64) bool { return t.word.CompareAndSwap(token, token+1) }

// IsHeld reports whether the turn is still that of the holder that received token from Enter.
func (t *Turn) IsHeld(token uint64) bool { return t.word.Load() == token }

// TakeOver takes the turn over from a holder that runs a handler. It reports whether the caller now
// holds the turn.
func (t *Turn) TakeOver() bool {
	word := t.word.Load()
	return word%2 == 1 && t.word.CompareAndSwap(word, word+1)
}

// Carrier carries the frames of a session over a connection. Any goroutine may call its methods,
// except while it holds the session's mutex.
type Carrier interface {
	// Send writes all of p, unless the carrier is a RoomWaiter.
	Send(p []byte) (int, error)
	// Update is called when WaitDeadline or IsIdle may have changed while nobody holds the
	// turn.
	Update()
	// End is called when the session is over and its output was sent. isClean reports that the
	// client should receive the output before the connection closes.
	End(isClean bool)
}

// RoomWaiter is a Carrier whose Send does not block: it writes what the connection accepts now, and
// returns how much that was. A session of another Carrier sends in a goroutine of its own.
type RoomWaiter interface {
	Carrier
	// AwaitRoom makes the carrier call Session.Flush when the connection accepts more.
	AwaitRoom()
}

// Host is the goroutine that runs a handler, if others wait for that goroutine.
type Host interface {
	// MayBlock is called before the handler waits.
	MayBlock()
}
