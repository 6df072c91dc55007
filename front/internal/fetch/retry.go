package fetch

import (
	"context"
	"time"
)

// shouldRetry reports whether another server is tried after an error.
func (r *Request) shouldRetry(ctx context.Context, last *Error, tries int) bool {
	n := &r.upstream.Next
	isAllowed := [...]bool{Failure: n.Error, Timeout: n.Timeout, InvalidHeader: n.InvalidHeader}
	return last.Kind <= InvalidHeader && isAllowed[last.Kind] && r.canRetry(ctx, last.notSent, tries)
}

// canRetry reports whether the request may be sent again: non-idempotent requests are not repeated
// once they have been sent.
func (r *Request) canRetry(ctx context.Context, notSent bool, tries int) bool {
	n := &r.upstream.Next
	if n.Off || ctx.Err() != nil || n.Tries > 0 && tries >= n.Tries ||
		n.For > 0 && time.Since(r.firstAttempt.startTime) >= n.For {
		return false
	}
	return (notSent || r.IsRepeatable) && r.Body.IsAvailable()
}

// canRepeat reports whether a request may be sent again to a server that has closed a kept
// connection before its response began. nginx counts this as an error of the server: with
// proxy_next_upstream off it does not repeat.
func (a *attempt) canRepeat() bool {
	n := &a.request.upstream.Next
	return a.request.IsRepeatable && n.Error && !n.Off
}
