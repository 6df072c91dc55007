package front

import (
	"net/http"
	"sync"
	"sync/atomic"
)

// Handler does what a Config says. It is safe for use by any number of requests at once. Make one with New, and Close it.
type Handler struct {
	options options
	state   *state
	current atomic.Pointer[plan]

	changes sync.Mutex // Reload and Close
	closed  bool
}

// New compiles a Config. Its errors name where in the configuration they are. It opens what the Config names: files,
// logs, caches.
func New(c Config, opts ...Option) (*Handler, error) {
	h := &Handler{state: newState(), options: options{bound: make(map[string]http.Handler)}}
	for _, o := range opts {
		o(&h.options)
	}
	p, err := h.compile(&c)
	if err != nil {
		return nil, err
	}
	h.current.Store(p)
	p.commit()
	return h, nil
}

func (h *Handler) compile(c *Config) (*plan, error) {
	p, err := compile(c, &h.options, h.state)
	if err == nil {
		p.handler = h
	}
	return p, err
}

// Reload replaces the Config. Requests that have begun end under the one they began with. If it returns an error nothing has changed.
func (h *Handler) Reload(c Config) error {
	h.changes.Lock()
	defer h.changes.Unlock()
	if h.closed {
		return http.ErrServerClosed
	}
	p, err := h.compile(&c)
	if err != nil {
		return err
	}
	h.current.Swap(p).retire()
	p.commit()
	return nil
}

// Close closes what is open, once the requests that have begun have ended. Shut the server down first: later requests get 503.
func (h *Handler) Close() error {
	h.changes.Lock()
	defer h.changes.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	last := h.current.Swap(nil)
	last.retire()
	<-last.released
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

// owns reports whether a request is nobody's but ours and a server's: one that calls the Handler itself, and does not look at the
// request's Host again.
func (h *Handler) owns(r *http.Request) bool {
	s, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	return ok && s.Handler == http.Handler(h)
}

// enter returns the plan, which is not released before leave.
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
		p.leave() // it may have been retired before we were counted
	}
}
