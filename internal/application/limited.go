package application

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// limitEvery is the time in which each client may send one request.
const limitEvery = time.Minute

// limiter lets each client send one request in limitEvery, like nginx's limit_req.
type limiter struct {
	mu   sync.Mutex
	last map[string]time.Time // of the last request that passed, by the client's address
}

// Limited is Handler behind a limiter, which rejects requests with status 429.
func Limited() http.Handler {
	l := &limiter{last: make(map[string]time.Time)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.passes(r.RemoteAddr, time.Now()) {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		Handler(w, r)
	})
}

func (l *limiter) passes(remote string, now time.Time) bool {
	client, _, err := net.SplitHostPort(remote)
	if err != nil {
		client = remote
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.last[client]
	if ok && now.Sub(last) < limitEvery {
		return false
	}
	l.last[client] = now
	return true
}
