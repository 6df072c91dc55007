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

// notes are what an attempt learns from responses, besides what module acmez reports.
type notes struct {
	mu         sync.Mutex
	retryAfter time.Duration // of the last response with a rate limit
}

type notesKey struct{}

func withNotes(ctx context.Context) (context.Context, *notes) {
	n := new(notes)
	return context.WithValue(ctx, notesKey{}, n), n
}

func (n *notes) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.retryAfter
}

// noting is a transport that limits responses, and notes when an issuer wants no requests.
type noting struct{ next *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t noting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = limitedBody{io.LimitReader(resp.Body, maxResponse), resp.Body}
	n, ok := r.Context().Value(notesKey{}).(*notes)
	if ok && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) {
		n.mu.Lock()
		n.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
		n.mu.Unlock()
	}
	return resp, nil
}

// CloseIdleConnections is for http.Client.
func (t noting) CloseIdleConnections() { t.next.CloseIdleConnections() }

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
