package exchange

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// Config holds the settings of one Serve call, whatever connections carry its exchanges.
type Config struct {
	Server             *ServerState
	Protocol           Protocol
	Handler            http.Handler
	BaseContext        context.Context // parent of the contexts of all connections
	TLS                *tls.Config     // of the connections; nil if the listener accepts TLS connections or none
	HandshakeTimeout   time.Duration   // of TLS
	Limits             http1.Limits
	HeadTimeout        time.Duration // never 0
	ReadTimeout        time.Duration // 0 is no limit, here and in the next three
	WriteTimeout       time.Duration
	IdleTimeout        time.Duration
	DefaultSendTimeout time.Duration // Server.SendTimeout
	OnRefused          func(Refusal)
	ServesHTTP1        bool // or FastCGI
	ServesH2C          bool // HTTP/2 without TLS
	ExpectedTLS        bool // the clients begin without it: one request of HTTP/1 for each connection
}

// Refusal is a request that no handler sees: it is malformed, or its head was late or incomplete.
type Refusal struct {
	// Request is the part of the request that was read. RemoteAddr, TLS, URL, Header and
	// http.LocalAddrContextKey are always set. Method, RequestURI and Proto are set if the
	// request line is well-formed; Host and Header hold the fields that precede the fault.
	Request *http.Request
	// Line is the request line as received, well-formed or not, without its line end, or the
	// part of it that has arrived. It has at most 8 KB.
	Line string
	// Status is the status of the response. If the client is slow or has left, no response was
	// sent, and Status is 408 or 400.
	Status int
	// Sent is the length of the response's body, 0 if there is no response.
	Sent int64
}

const maxRefusedLine = 8 << 10

// ReportRequest calls the hook with a request, of which in was read. The caller has set in r what
// is known of the connection.
func (p *Config) ReportRequest(r *http.Request, local net.Addr, in []byte, status int, sent int64) {
	if p.OnRefused == nil || p.Protocol.Describe == nil {
		return
	}
	r.Header, r.URL, r.Body = make(http.Header), new(url.URL), http.NoBody
	line := p.Protocol.Describe(r, in, p.Limits)
	p.CallRefused(p.BaseContext, r, local, line, status, sent)
}

// CallRefused calls the hook, which is not nil, with a request that has all fields of a Refusal's.
// A panic is logged as a handler's is. It must not end the process, and other requests of the
// connection must receive their responses.
func (p *Config) CallRefused(ctx context.Context, r *http.Request, local net.Addr,
	line []byte, status int, sent int64,
) {
	defer func() {
		if err := recover(); err != nil {
			p.Server.LogPanic("reporting a rejected request of", r.RemoteAddr, err)
		}
	}()
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, local)
	text := string(line[:min(len(line), maxRefusedLine)])
	p.OnRefused(Refusal{Request: r.WithContext(ctx), Line: text, Status: status, Sent: sent})
}

// ServerState is what a Server shares with its connections. They do not refer to the Server, so
// that they can neither close it nor lock its mutex.
type ServerState struct {
	Date DateCache
	// Logf writes to the server's error log.
	Logf func(format string, args ...any)

	Closing            atomic.Bool   // after Shutdown or Close
	Aborted            atomic.Bool   // after Close
	KeepAlivesDisabled *atomic.Bool  // after SetKeepAlivesEnabled(false)
	Retired            atomic.Bool   // after Retire
	AcceptedConns      atomic.Int64  // total of accepted connections
	PartialHeads       atomic.Int64  // connections on which a head has arrived in part
	Handshakes         atomic.Int64  // total of completed TLS handshakes
	ConnClosed         chan struct{} // holds one token after a connection has closed

	trimmedAt  atomic.Int64 // Handshakes when memory was last returned
	awaitsRest atomic.Bool  // trimAtRest will be called
}

// KeepsConnections reports whether a connection may serve a request after the current one.
func (p *Config) KeepsConnections() bool {
	return !p.ExpectedTLS && p.Server.KeepsConnections() && !p.Server.Retired.Load()
}

// KeepsConnections reports whether a connection may wait for another request.
func (s *ServerState) KeepsConnections() bool {
	return !s.Closing.Load() && !s.KeepAlivesDisabled.Load()
}

// LogPanic logs a recovered panic and the stack. It is called by the deferred function.
func (s *ServerState) LogPanic(doing, remote string, err any) {
	stack := make([]byte, 64<<10)
	s.Logf("http: panic %s %v: %v\n%s", doing, remote, err, stack[:runtime.Stack(stack, false)])
}

// SignalClosed wakes Shutdown.
func (s *ServerState) SignalClosed() { Signal(s.ConnClosed) }

// Signal wakes the goroutine that waits on c, which holds one value and may be nil.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// DateCache caches the value of the Date field for the current second. Formatting takes 170 ns and
// reading the clock 57; this takes 2. A timer drops the value at the end of its second, and the
// next response makes a new one. An idle server sets no timer.
type DateCache struct{ current atomic.Pointer[string] }

// Text returns the value of the Date field.
func (d *DateCache) Text() string {
	if t := d.current.Load(); t != nil {
		return *t
	}
	now := time.Now()
	t := now.UTC().Format(http.TimeFormat)
	d.current.Store(&t)
	time.AfterFunc(now.Truncate(time.Second).Add(time.Second).Sub(now), func() { d.current.Store(nil) })
	return t
}

// TLS handshakes leave much garbage. If thousands of clients connect and then wait, nothing
// allocates any more: the collector does not run for two minutes, and the process keeps twice the
// memory of its connections. So a server that rests after many handshakes runs the collector once
// and returns free memory: an idle connection then takes 6.4 KB instead of 12.3.
const (
	// leastHandshakes is how many handshakes must have been completed since the last time.
	leastHandshakes = 500
	// restTime is for how long no handshake may have been completed.
	restTime = 500 * time.Millisecond
	// heapPerHandshake limits the heap that is collected for each handshake. That takes about 20
	// µs, a handshake more than 300.
	heapPerHandshake = 64 << 10
)

// CountHandshake counts a completed TLS handshake.
func (s *ServerState) CountHandshake() {
	n := s.Handshakes.Add(1)
	if n-s.trimmedAt.Load() >= leastHandshakes && s.awaitsRest.CompareAndSwap(false, true) {
		time.AfterFunc(restTime, func() { s.trimAtRest(n) })
	}
}

// trimAtRest returns free memory if there were no handshakes after the first n, and otherwise waits
// again.
func (s *ServerState) trimAtRest(n int64) {
	if now := s.Handshakes.Load(); now != n {
		time.AfterFunc(restTime, func() { s.trimAtRest(now) })
		return
	}
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	isWorthwhile := heap[0].Value.Uint64() <= uint64(n-s.trimmedAt.Load())*heapPerHandshake
	if isWorthwhile {
		s.trimmedAt.Store(n)
	}
	s.awaitsRest.Store(false)
	if isWorthwhile {
		debug.FreeOSMemory()
	}
}
