package front

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// Handler serves what a Config describes. It is safe for concurrent use. Make one with New, and
// close it with Close.
type Handler struct {
	options options
	state   *state
	current atomic.Pointer[plan]

	changes sync.Mutex // held by Reload and Close
	closed  bool
}

// New compiles a Config, and opens its files, logs and caches. Errors have a position in the
// configuration.
func New(c conf.Config, opts ...Option) (*Handler, error) {
	h := &Handler{state: newState(), options: options{bound: make(map[string]http.Handler)}}
	for _, o := range opts {
		o(&h.options)
	}
	p, err := h.compile(&c)
	if err != nil {
		return nil, err
	}
	p.prepare()
	h.current.Store(p)
	p.commit()
	return h, nil
}

func (h *Handler) compile(c *conf.Config) (*plan, error) {
	p, err := compile(c, &h.options, h.state)
	if err == nil {
		p.handler = h
	}
	return p, err
}

// Reload replaces the Config. Requests in progress end under the old one. After an error nothing
// has changed.
func (h *Handler) Reload(c conf.Config) error {
	h.changes.Lock()
	defer h.changes.Unlock()
	if h.closed {
		return http.ErrServerClosed
	}
	p, err := h.compile(&c)
	if err != nil {
		return err
	}
	p.prepare()
	old := h.current.Swap(p)
	if old.shutdownTimeout > 0 {
		time.AfterFunc(old.shutdownTimeout, old.expire)
	}
	old.retire()
	p.commit()
	return nil
}

// Abort ends the requests in progress with their connections, also hijacked ones, for which no
// server's Close is responsible. Close then waits only until they have been logged.
func (h *Handler) Abort() { h.state.abort() }

// Close waits for the requests in progress, also those of earlier Configs, and closes everything.
// Shut the server down first: later requests get 503.
func (h *Handler) Close() error {
	h.changes.Lock()
	defer h.changes.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	h.state.close()
	h.current.Swap(nil).retire()
	h.state.plans.Wait()
	return nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := h.enter()
	if p == nil {
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
		return
	}
	defer p.leave()
	newExchange(p, w, r).run()
}

// owns reports whether only the Handler and a server use a request: the server calls the Handler
// directly, and does not read the request's Host afterwards.
func (h *Handler) owns(r *http.Request) bool {
	s, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	return ok && s.Handler == http.Handler(h)
}

// enter returns the current plan, which is not released before leave.
func (h *Handler) enter() *plan {
	for {
		p := h.current.Load()
		if p == nil {
			return nil
		}
		p.users.Add(1)
		if h.current.Load() == p {
			return p
		}
		p.leave() // it may have been retired before users was incremented
	}
}
