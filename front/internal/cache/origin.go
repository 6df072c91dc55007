package cache

import (
	"context"
	"net/http"
)

// Fields are those of a request that the origin receives, or would receive: fields that a proxy
// removes or replaces do not affect a response. Vary and Authorization refer to them.
type Fields interface {
	// Field returns the values of a field, by its canonical name, and the host for Host. It returns
	// nil for what OriginRequest.Whole removes. After a request with OriginRequest.Behind it may be
	// called when the client's request has ended.
	Field(name string) []string
}

// Origin makes the requests that the origin receives for a client's.
type Origin interface {
	Fields
	// Request makes a request, which the Fetch sends. With OriginRequest.Behind the Fetch runs in the
	// background, and must not use the client's request.
	Request(OriginRequest) Fetch
}

// OriginRequest is how the request to the origin differs from the client's.
type OriginRequest struct {
	// Method is the request's method.
	Method string
	// Whole removes conditions and ranges: see IsConditional.
	Whole bool
	// Behind marks a background update: the client's response has begun.
	Behind bool
	// Etag and LastModified, if not empty, are then sent as If-None-Match and If-Modified-Since.
	Etag, LastModified string
}

// Apply changes the header of a client's request accordingly.
func (a *OriginRequest) Apply(h http.Header) {
	if !a.Whole {
		return
	}
	for name := range h {
		if IsConditional(name) {
			delete(h, name)
		}
	}
	if a.Etag != "" {
		h["If-None-Match"] = []string{a.Etag}
	}
	if a.LastModified != "" {
		h["If-Modified-Since"] = []string{a.LastModified}
	}
}

// IsConditional reports whether a field of a request may replace the whole response by a part of it,
// or by another one.
func IsConditional(name string) bool {
	switch name {
	case "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range":
		return true
	}
	return false
}

// Fetch sends the request to the origin, and retries it as the origin's own rules allow. The caller
// owns the response's header. Reading its body fails if it is incomplete, and the caller must close
// it.
//
// If an error has a method Timeout or InvalidHeader that returns true, Stale treats it accordingly.
type Fetch func(context.Context) (*http.Response, error)
