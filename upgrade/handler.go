package upgrade

import "net/http"

// Handler returns a handler that calls next. Run waits for it, also if next has hijacked its
// connection, as websockets do. After an upgrade its responses end keep-alive connections with
// Connection: close, or with GOAWAY over HTTP/2. http.Server needs that; tare.Server does the same
// by itself.
func (u *Upgrader) Handler(next http.Handler) http.Handler {
	if next == nil {
		next = http.DefaultServeMux
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.handlers.Add(1)
		defer u.handlers.Add(-1)
		// a proxy's response to a websocket request has a Connection field of its own
		if u.isEnding.Load() && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
