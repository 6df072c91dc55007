package acme

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	userAgent = "tare"
	// maxResponse limits the size of an issuer's response.
	maxResponse = 1 << 20
	// maxRetryAfter limits how long an issuer may delay the next attempt.
	maxRetryAfter = 7 * 24 * time.Hour
)

// rateLimit is how long an issuer wants no requests of an attempt. Module acmez does not report it.
type rateLimit struct {
	mu         sync.Mutex
	retryAfter time.Duration // of the last response with a rate limit
}

type rateLimitKey struct{}

func withRateLimit(ctx context.Context) (context.Context, *rateLimit) {
	l := new(rateLimit)
	return context.WithValue(ctx, rateLimitKey{}, l), l
}

func (l *rateLimit) delay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retryAfter
}

// issuerTransport limits the size of responses, and records their rate limits.
type issuerTransport struct{ next *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t issuerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = limitedBody{io.LimitReader(resp.Body, maxResponse), resp.Body}
	limit, ok := r.Context().Value(rateLimitKey{}).(*rateLimit)
	if ok && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) {
		limit.mu.Lock()
		limit.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
		limit.mu.Unlock()
	}
	return resp, nil
}

// CloseIdleConnections is for http.Client.
func (t issuerTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }

type limitedBody struct {
	io.Reader
	io.Closer
}

// retryAfter parses the field Retry-After. It returns 0 if the field is missing or invalid.
func retryAfter(field string, now time.Time) time.Duration {
	var wait time.Duration
	if n, err := strconv.ParseUint(field, 10, 31); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(field); err == nil {
		wait = at.Sub(now)
	}
	return max(0, min(wait, maxRetryAfter))
}
