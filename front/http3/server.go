package http3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	quicserver "github.com/tarehq/tare/front/internal/quic"
	"github.com/tarehq/tare/front/server"
)

const (
	// maxConnections limits the connections of a socket, including handshakes. QUIC's connections
	// need no descriptors, so nothing else would limit them.
	maxConnections = 16384
	// maxUnverified is the number of handshakes in progress from which on clients must prove that
	// they receive packets at their address.
	maxUnverified = 512
	// lingerTime is how long a retired connection without requests stays open. Its client receives
	// the last packets again if they were lost, and learns which requests were rejected.
	lingerTime = 2 * time.Second
	// windowsPerConnection is how many streams of a connection can be received at full speed.
	windowsPerConnection = 16
	// maxUniStreams is what a client of HTTP/3 needs: its control stream, two of QPACK, and some
	// that the server ignores (RFC 9114, 6.2).
	maxUniStreams = 8
	// A client that sends nothing for maxSilence has gone. It is probed in between, so that a
	// request may wait for longer.
	maxSilence    = 60 * time.Second
	probeInterval = 20 * time.Second
	// handshakeTimeout is how long a client may send nothing during a handshake.
	handshakeTimeout = 10 * time.Second
)

// New returns what serves HTTP/3, for server.Options.HTTP3.
func New() server.HTTP3 { return serve }

func serve(c quicserver.Config) (quicserver.Server, error) {
	s := &socketServer{open: make(map[*connection]bool)}
	s.config.Store(&c)
	var err error
	if s.conn, err = newSharedConn(c.Conn, c.Files); err != nil {
		return nil, err
	}
	return s, nil
}

// listen accepts connections. The caller holds mu.
func (s *socketServer) listen() error {
	if s.transport == nil {
		s.transport = &quic.Transport{
			Conn: s.conn, ConnectionIDGenerator: s.conn, VerifySourceAddress: s.mustVerify,
			ConnContext: s.countConnection,
		}
	}
	l, err := s.transport.Listen(s.config.Load().TLS, &quic.Config{GetConfigForClient: s.configForClient})
	if err != nil {
		return err
	}
	s.listener = l
	go s.accept(l)
	return nil
}

type socketServer struct {
	conn   *sharedConn
	config atomic.Pointer[quicserver.Config] // of new connections

	counted   atomic.Int64 // connections and handshakes in progress
	closeOnce sync.Once

	mu        sync.Mutex      // guards the rest
	transport *quic.Transport // reads from conn; nil until the first call of Replace
	listener  *quic.Listener
	accepted  int64
	open      map[*connection]bool
	isRetired bool
}

// mustVerify reports whether a new client must prove its address (RFC 9000, 8.1.2).
func (s *socketServer) mustVerify(net.Addr) bool {
	_, open := s.Connections()
	return s.config.Load().Listener.HTTP3Retry || s.counted.Load()-open >= maxUnverified
}

var errTooMany = errors.New("too many connections")

// countConnection limits the connections. ctx ends with the connection or its handshake.
func (s *socketServer) countConnection(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	if s.counted.Add(1) > maxConnections {
		s.counted.Add(-1)
		return nil, errTooMany
	}
	context.AfterFunc(ctx, func() { s.counted.Add(-1) })
	return ctx, nil
}

func (s *socketServer) configForClient(*quic.ClientInfo) (*quic.Config, error) {
	l := s.config.Load().Listener
	window := uint64(max(l.HTTP3Window, 1))
	return &quic.Config{
		HandshakeIdleTimeout: handshakeTimeout, Tracer: newTrace,
		MaxIdleTimeout: maxSilence, KeepAlivePeriod: probeInterval,
		MaxIncomingStreams: int64(l.HTTP3Streams), MaxIncomingUniStreams: maxUniStreams,
		InitialStreamReceiveWindow: window, MaxStreamReceiveWindow: window,
		InitialConnectionReceiveWindow: windowsPerConnection * window,
		MaxConnectionReceiveWindow:     windowsPerConnection * window,
	}, nil
}

// accept serves connections until the listener is closed.
func (s *socketServer) accept(l *quic.Listener) {
	for {
		q, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		c := newConnection(q, s.config.Load())
		s.mu.Lock()
		s.accepted++
		s.open[c] = true
		if s.isRetired || c.config != s.config.Load() { // Retire or Replace has just been called
			c.retire()
		}
		s.mu.Unlock()
		go func() {
			c.serve()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.open, c)
		}()
	}
}

// Connections implements quicserver.Server.
func (s *socketServer) Connections() (accepted, open int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted, int64(len(s.open))
}

// Replace implements quicserver.Server.
func (s *socketServer) Replace(c quicserver.Config, atMost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.Store(&c)
	s.retireAll(atMost)
	if s.listener != nil {
		return
	}
	s.isRetired = false
	if err := s.listen(); err != nil { // the server has just been closed
		c.ErrorLog.Printf("http3: %v", err)
	}
}

// retireAll retires the connections that are open now, and closes them after atMost; 0 is no limit.
// The caller holds mu.
func (s *socketServer) retireAll(atMost time.Duration) {
	for c := range s.open {
		if c.retire(); atMost > 0 {
			end := time.AfterFunc(atMost, c.close)
			context.AfterFunc(c.quic.Context(), func() { end.Stop() })
		}
	}
}

// Retire implements quicserver.Server.
func (s *socketServer) Retire(isReplaced bool, atMost time.Duration) {
	if isReplaced {
		s.conn.pause()
	}
	s.mu.Lock()
	if s.isRetired {
		s.mu.Unlock()
		return
	}
	s.isRetired = true
	s.retireAll(atMost)
	var l *quic.Listener
	if !isReplaced { // otherwise handshakes in progress succeed, and no new ones arrive
		l, s.listener = s.listener, nil
	}
	s.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
}

// IsNeeded implements quicserver.Server.
func (s *socketServer) IsNeeded(forOthers bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted.Load() > 0 || len(s.open) > 0 || forOthers && s.conn.servesPeers()
}

// Close implements quicserver.Server.
func (s *socketServer) Close() (err error) {
	s.closeOnce.Do(func() {
		s.Retire(false, 0)
		s.mu.Lock()
		l, transport := s.listener, s.transport // l after Retire(true)
		s.mu.Unlock()
		if l != nil {
			_ = l.Close()
		}
		s.mu.Lock()
		for c := range s.open {
			c.close()
		}
		s.mu.Unlock()
		if transport != nil {
			err = transport.Close()
		}
		err = errors.Join(err, s.conn.Close())
	})
	if err != nil {
		return fmt.Errorf("http3: %w", err)
	}
	return nil
}
