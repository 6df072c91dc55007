package acme

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	userAgent = "tare"
	// maxResponse limits the size of an issuer's response.
	maxResponse = 1 << 20
	// maxRetryAfter limits how long an issuer may delay the next attempt.
	maxRetryAfter = 7 * 24 * time.Hour
)

// issuerTransport limits the size of responses, and keeps their rate limits, which module acmez does
// not report.
type issuerTransport struct {
	*http.Transport
	// retryAfter is how long the issuer wants no requests, by the last response with a rate limit. It
	// is a time.Duration.
	retryAfter atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (t *issuerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxResponse)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		t.retryAfter.Store(int64(retryAfter(resp.Header.Get("Retry-After"), time.Now())))
	}
	return resp, nil
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
