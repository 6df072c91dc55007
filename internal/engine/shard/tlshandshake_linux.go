package shard

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/engine/netconn"
	"github.com/tarehq/tare/internal/poll"
)

// A handshake of package tls cannot be interrupted and resumed, so each runs in a goroutine. These
// are its states:
//
//	queued ──▶ computing ──waits for the client──▶ waiting ──input──▶ computing ──▶ over
//	waiting ──newer ones, the deadline──▶ computing, whose Read fails ──▶ over
//
// A handshake begins when the record with the client's first message has arrived. Only the first
// part of a handshake waits for a turn: the limit of computing handshakes keeps the loops
// responsive, because a handshake takes as much CPU time as dozens of requests. Waiting handshakes
// hold a goroutine and some 20 KB, so that their number is limited, too. Beyond that limit the
// oldest one ends: the server can compute far fewer handshakes in the time of a round trip, so that
// the oldest one's client has stalled.
const (
	// maxHandshakes is how many handshakes wait for their clients at a time.
	maxHandshakes = 1024

	// turnTime is how long handshakes are queued before those that compute no longer count: some
	// functions of the program's tls.Config may wait for something (withoutTurns).
	turnTime = 50 * time.Millisecond

	// recordHeaderLen is the size of a TLS record's header (RFC 8446, 5.1).
	recordHeaderLen = 5
	// enoughHello is how much of a client's first message starts the handshake even if the record
	// is longer: the socket's buffer may have no room for the rest.
	enoughHello = 4 << 10
	// mostFragment is how much of the client's first record package tls receives at a time, at
	// most. It keeps the buffer that its first read has grown for as long as the connection is
	// open: 576 bytes are enough for such a fragment, and for the requests of most clients. One
	// record of 1,500 bytes would make it 2,304.
	mostFragment = 512
)

// fragmentOf returns the size of the fragments in which package tls receives the client's first
// record, of a size. Package tls also keeps the buffer that holds the whole message. The first
// fragment determines its size, which doubles until the message has room: fragments of 375 bytes
// make it 1,536 bytes for a message of 1,500, and fragments of 512 make it 2,048.
func fragmentOf(size int) int {
	for size > mostFragment {
		size = (size + 1) / 2
	}
	return size
}

// handshakes are the handshakes of a group's connections.
type handshakes struct {
	mu        sync.Mutex
	queue     list.List   // of *shardConn
	computing *int        // goroutines that have a turn; replaced when all turns have ended
	waiting   list.List   // of *handshake, the oldest first
	running   int         // goroutines
	timer     *time.Timer // runs while handshakes are queued; nil otherwise
}

// handshake is a handshake that is not queued any more. It has a goroutine.
type handshake struct {
	all  *handshakes
	conn *shardConn

	// The client's first record is passed on as several; see mostFragment.
	helloHeader [recordHeaderLen]byte
	helloLeft   int // bytes of its content that were not received; -1 before its header
	fragment    int // how many bytes are received at a time

	turn      *int        // the count in which it computes; nil while it waits; guarded by all.mu
	isEvicted atomic.Bool // it has ended in favor of newer ones
}

// begin starts k's handshake, or adds k to the queue. Its caller has claimed k.
func (a *handshakes) begin(k *shardConn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue.PushBack(k)
	a.startQueued()
}

// startQueued starts handshakes that are queued, as far as the limits permit. Its caller holds mu.
func (a *handshakes) startQueued() {
	for a.queue.Len() > 0 && *a.computing < runtime.GOMAXPROCS(0) && a.running < maxHandshakes {
		h := &handshake{all: a, conn: a.queue.Remove(a.queue.Front()).(*shardConn), helloLeft: -1}
		h.beginTurn()
		a.running++
		go h.run()
	}
	if a.queue.Len() == 0 {
		return
	}
	if a.running >= maxHandshakes && a.waiting.Len() > 0 {
		oldest := a.waiting.Remove(a.waiting.Front()).(*handshake)
		oldest.isEvicted.Store(true)
		oldest.conn.shutdown()
	}
	if a.timer == nil {
		a.timer = time.AfterFunc(turnTime, a.endTurns)
	}
}

func (a *handshakes) endTurns() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer, a.computing = nil, new(int)
	a.startQueued()
}

// beginTurn makes h count as computing. Its caller holds mu.
func (h *handshake) beginTurn() {
	h.turn = h.all.computing
	*h.turn++
}

// endTurn is called when h no longer computes. Its caller holds mu.
func (h *handshake) endTurn() {
	if h.turn != nil {
		*h.turn--
	}
	h.turn = nil
}

// pause ends h's turn while h waits for its client, or for a function of the program. The result
// begins the next one.
func (h *handshake) pause(forClient bool) (resume func()) {
	a := h.all
	a.mu.Lock()
	defer a.mu.Unlock()
	h.endTurn()
	wait := new(list.Element)
	if forClient {
		wait = a.waiting.PushBack(h)
	}
	a.startQueued()
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiting.Remove(wait) // does nothing if wait is not in the list: h may be evicted
		h.beginTurn()
	}
}

// run performs the handshake. Then a runner serves the connection.
func (h *handshake) run() {
	k, settled := h.conn, false
	defer func() { // also after runtime.Goexit in a function of the tls.Config
		if !settled {
			if err := recover(); err != nil {
				k.group().server.LogPanic("serving", k.remote, err)
			}
			_ = k.Close()
		}
		h.all.mu.Lock()
		defer h.all.mu.Unlock()
		h.endTurn()
		h.all.running--
		h.all.startQueued()
	}()
	settled = h.perform(k)
}

// perform reports whether the connection is served from now on.
func (h *handshake) perform(k *shardConn) bool {
	if k.group().server.Aborted.Load() { // since the handshake was queued
		return false
	}
	p, t := k.config(), &tlsLayer{Conn: recordTransport{k}, below: k, handshake: h}
	_ = k.SetDeadline(k.Opened().Add(p.Exchanges.HandshakeTimeout))
	t.conn = tls.Server(t, p.tls)
	k.tls = t
	ctx := context.WithValue(k.Context(), http.LocalAddrContextKey, k.LocalAddr())
	err := t.conn.HandshakeContext(ctx)
	if err == nil {
		err = k.sendCiphertext()
	}
	if err != nil {
		if h.isEvicted.Load() {
			err = errors.New("too many handshakes wait for their clients")
		}
		netconn.HandshakeFailed(p.Exchanges, k.LocalAddr(), k.remote, err)
		_ = k.sendCiphertext() // an alert, or the response to a request without TLS
		t.handshake = nil
		return false
	}
	t.handshake = nil
	_ = k.SetDeadline(time.Time{})
	k.mu.Lock()
	k.waiters = nil // no call waits: a connection that rests holds no channels
	k.mu.Unlock()
	k.group().server.CountHandshake()
	state := t.conn.ConnectionState()
	switch proto := state.NegotiatedProtocol; {
	case netconn.IsHTTP1(proto):
		if !p.Exchanges.ServesHTTP1 {
			return false
		}
		if k.acquire() {
			poll.AckNow(int(k.fd))
			k.release()
		}
	case proto != netconn.ProtoHTTP2:
		return false
	case !netconn.AllowsHTTP2(p.HTTP2, &state):
		_ = k.writeTLS([][]byte{h2.Rejection()})
		return false
	default:
		newShardSession(k, &state)
	}
	t.secured, t.state = k.group().now(), &state
	k.state.set(flagAwaitsTLS, false)
	k.shard().runners.Run(job{conn: k})
	return true
}

// read is the record transport's Read during a handshake. p has room for a fragment: package tls
// reads into at least bytes.MinRead bytes more than it needs, and needs at least a header.
func (h *handshake) read(p []byte) (int, error) {
	if err := h.conn.sendCiphertext(); err != nil {
		return 0, err
	}
	if h.helloLeft == 0 || len(p) < recordHeaderLen+mostFragment {
		return h.conn.awaitInput(p, h.conn.recv)
	}
	if h.helloLeft < 0 {
		n, err := h.conn.awaitInput(p[:recordHeaderLen], h.conn.recv)
		h.helloLeft = 0
		if err != nil || n < recordHeaderLen || p[0] != netconn.RecordHandshake {
			return n, err
		}
		copy(h.helloHeader[:], p)
		if h.helloLeft = int(p[3])<<8 + int(p[4]); h.helloLeft <= mostFragment || h.helloLeft > maxPlaintext {
			h.helloLeft = 0
			return n, nil
		}
		h.fragment = fragmentOf(h.helloLeft)
	}
	n, err := h.conn.awaitInput(p[recordHeaderLen:][:min(h.helloLeft, h.fragment)], h.conn.recv)
	if err != nil {
		return 0, err
	}
	h.helloLeft -= n
	copy(p, h.helloHeader[:])
	p[3], p[4] = byte(n>>8), byte(n)
	return recordHeaderLen + n, nil
}

// beginsTLS reports whether a connection that the leader has claimed still needs a handshake. It
// starts the handshake once the client's first message has arrived. Until then the connection waits
// without a goroutine, so that slow clients hold up nothing. If the client does not speak TLS, the
// settings for plaintext apply, if there are any.
func (s *shard) beginsTLS(k *shardConn) bool {
	if !k.state.has(flagAwaitsTLS) {
		return false
	}
	isPlain, hasArrived := k.helloArrived()
	for !hasArrived {
		if k.addToLoop() != nil {
			_ = k.Close()
			return true
		}
		if k.park() {
			return true
		}
		isPlain, hasArrived = k.helloArrived()
	}
	if plain := k.config().Plaintext; isPlain && plain != nil {
		k.origin = &origin{plain, k.origin.ctx}
		k.state.set(flagAwaitsTLS, false)
		return false
	}
	s.group.handshakes.begin(k)
	return true
}

// helloArrived reports whether the record with the client's first message has arrived, or something
// else for which package tls has an error. isPlain reports that the client does not speak TLS.
func (k *shardConn) helloArrived() (isPlain, hasArrived bool) {
	var b [recordHeaderLen]byte
	n := poll.Peek(int(k.fd), b[:])
	switch {
	case n == 0:
		return false, poll.Ended(int(k.fd))
	case b[0] != netconn.RecordHandshake || k.state.has(flagEnded):
		return !netconn.BeginsTLS(b[0]), true
	case n < len(b):
		return false, false
	}
	size := recordHeaderLen + int(b[3])<<8 + int(b[4])
	unread, err := poll.Unread(int(k.fd))
	return false, err != nil || unread >= min(size, enoughHello)
}

// withoutTurns returns a copy of a tls.Config whose functions do not count as computing while they
// choose a configuration or a certificate: they may wait for a file or for another server. The
// functions of a configuration that GetConfigForClient returns still count.
func withoutTurns(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.GetConfigForClient = withoutTurn(config.GetConfigForClient)
	config.GetCertificate = withoutTurn(config.GetCertificate)
	return config
}

func withoutTurn[T any](f func(*tls.ClientHelloInfo) (T, error)) func(*tls.ClientHelloInfo) (T, error) {
	if f == nil {
		return nil
	}
	return func(hello *tls.ClientHelloInfo) (T, error) {
		defer hello.Conn.(*tlsLayer).handshake.pause(false)()
		return f(hello)
	}
}
