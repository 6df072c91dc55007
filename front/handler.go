package front

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/proxy"
	"github.com/tarehq/tare/front/internal/spool"
)

// Handler serves what a Config describes. It is safe for concurrent use. Make one with New, and
// close it with Close.
type Handler struct {
	options core.Options
	state   *core.State
	current atomic.Pointer[core.Plan]

	changes sync.Mutex // held by Reload and Close
	closed  bool
}

// New compiles a Config, and opens its files, logs and caches. Errors have a position in the
// configuration.
func New(c conf.Config, opts ...Option) (*Handler, error) {
	h := &Handler{state: core.NewState(modules()), options: core.Options{Bound: make(map[string]http.Handler)}}
	for _, o := range opts {
		o(&h.options)
	}
	if err := h.use(&c); err != nil {
		return nil, err
	}
	return h, nil
}

// use makes the plan of a Config the current one.
func (h *Handler) use(c *conf.Config) error {
	p, err := core.Compile(c, &h.options, h.state, modules())
	if err != nil {
		return err
	}
	p.Handler = h
	p.Prepare()
	if old := h.current.Swap(p); old != nil {
		if old.ShutdownTimeout > 0 {
			time.AfterFunc(old.ShutdownTimeout, old.Expire)
		}
		old.Retire()
	}
	p.Commit()
	return nil
}

// Reload replaces the Config. Requests in progress end under the old one. After an error nothing
// has changed.
func (h *Handler) Reload(c conf.Config) error {
	h.changes.Lock()
	defer h.changes.Unlock()
	if h.closed {
		return http.ErrServerClosed
	}
	return h.use(&c)
}

// Abort ends the requests in progress with their connections, also hijacked ones, for which no
// server's Close is responsible. Close then waits only until they have been logged.
func (h *Handler) Abort() { h.state.Abort() }

// Close waits for the requests in progress, also those of earlier Configs, and closes everything.
// Shut the server down first: later requests get 503. An error reports lost lines of a log.
func (h *Handler) Close() error {
	h.changes.Lock()
	defer h.changes.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	h.state.Close()
	h.options.LeaveConfig()
	h.current.Swap(nil).Retire()
	h.state.Plans.Wait()
	h.state.Relay.Close()
	return h.state.LogFailure()
}

// ErrorLogger returns a logger for errors that concern no request, such as those of the Handler's
// server. It writes to the ErrorLog of the Config that is in use at the time.
func (h *Handler) ErrorLogger() *log.Logger { return h.options.Logger() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if x := h.begin(w, r); x != nil {
		x.Run()
	}
}

// ServePlaintext responds to a request without TLS where TLS is expected, as a tare.Server calls
// its Plaintext. The request fails with status 497, to which an error page may apply; without one
// the client receives 400.
func (h *Handler) ServePlaintext(w http.ResponseWriter, r *http.Request) {
	if x := h.begin(w, r); x != nil {
		x.ExpectedTLS = true
		x.Run()
	}
}

// begin returns the exchange of a request, or nil if it has responded because h is closed.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request) *core.Exchange {
	p := h.enter()
	if p == nil {
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
		return nil
	}
	return core.NewExchange(p, w, r)
}

// enter returns the current plan, which is not released before leave.
func (h *Handler) enter() *core.Plan {
	for {
		p := h.current.Load()
		if p == nil {
			return nil
		}
		p.Users.Add(1)
		if h.current.Load() == p {
			return p
		}
		p.Leave() // it may have been retired before users was incremented
	}
}

// ConnState counts connections. It must be a server's ConnState, or be called by it. Without it and
// without CountConnections, the Handler reports numbers of requests as numbers of connections.
func (h *Handler) ConnState(_ net.Conn, state http.ConnState) {
	switch n := &h.state.Counts; state {
	case http.StateNew:
		n.Accepted.Add(1)
		n.Conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		n.Conns.Add(-1)
	}
}

// ReopenLogs reopens the files of all logs, which is done after they have been renamed. A log whose
// file cannot be opened keeps the old one. One that hangs does not delay the others.
func (h *Handler) ReopenLogs(ctx context.Context) error {
	logs := core.InUse[string, *spool.Spool](&h.state.Logs)
	results := make(chan error, len(logs))
	for path, f := range logs {
		go func() {
			err := f.Reopen(ctx)
			if err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
			results <- err
		}()
	}
	var all []error
	for range logs {
		all = append(all, <-results)
	}
	return errors.Join(all...)
}

// HostAt returns the Host for a name at a local address, in the Config that is in use now, and the
// one for unknown names there. TLS needs them before there is a request. They are of the Config's
// Hosts; nil if none listens there, or the Handler is closed.
func (h *Handler) HostAt(local net.Addr, name string) (host, defaultHost *conf.Host) {
	p := h.enter()
	if p == nil {
		return nil, nil
	}
	defer p.Leave()
	return p.HostAt(local, name)
}

// Purge removes the cached responses of a key from a cache, and returns how many there were. The
// key is as ProxyCache.Key evaluates for a request.
func (h *Handler) Purge(zone, key string) (int, error) {
	p := h.enter()
	if p == nil {
		return 0, http.ErrServerClosed
	}
	defer p.Leave()
	return proxy.PurgeZone(p, zone, key)
}

// WithProxyHeader returns a context for the requests of a connection that begins with a PROXY
// protocol header. header returns the client's address, and the address that the client connected
// to; they are invalid if the header has none. Any goroutine may call it, but only for a request,
// so a server's ConnContext may call WithProxyHeader before the header has arrived.
// Request.RemoteAddr must be the proxy's address; RealIP defines which proxies are trusted.
func WithProxyHeader(ctx context.Context, header func() (source, destination netip.AddrPort)) context.Context {
	return core.WithProxyHeader(ctx, header)
}

// LogRejected logs a request that no handler has seen: the server has rejected it, or its head did
// not arrive in time. It uses the access logs of the server block for the address and the host, and
// of no location.
//
// r has what is known of the request. RemoteAddr, URL and Header must not be nil, and
// http.LocalAddrContextKey is the listener's address. line is the request line as received, sent
// the length of the response's body. LogRejected does not block.
func (h *Handler) LogRejected(r *http.Request, line string, status int, sent int64) {
	p := h.enter()
	if p == nil {
		return
	}
	defer p.Leave()
	core.LogRejected(p, r, line, status, sent)
}
