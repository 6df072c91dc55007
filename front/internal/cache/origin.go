package cache

import (
	"context"
	"errors"
	"net/http"
)

// An Origin produces responses.
type Origin interface {
	// Prepare makes a request for the origin from the client's. It is called while the client's
	// request exists. Fetch may run after that has ended, and must not use it. The request fails
	// with Prepare's error.
	Prepare(OriginRequest) (Fetch, error)
	// Sent returns the header and the host of the request that the origin receives, without what
	// OriginRequest.Whole removes. Vary and Authorization refer to them. It is called while the
	// client's request exists. The header is only read.
	Sent() (header http.Header, host string)
}

// OriginRequest is how the request to the origin differs from the client's.
type OriginRequest struct {
	// Method is the request's method.
	Method string
	// Whole removes conditions and ranges: If-Match, If-None-Match, If-Modified-Since,
	// If-Unmodified-Since, If-Range, Range.
	Whole bool
	// Part reports that the key stands for a part of the response, which the request selects.
	Part bool
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
	for _, name := range [...]string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
		"If-Range", "Range"} {
		delete(h, name)
	}
	if a.Etag != "" {
		h["If-None-Match"] = []string{a.Etag}
	}
	if a.LastModified != "" {
		h["If-Modified-Since"] = []string{a.LastModified}
	}
}

// Fetch sends the request to the origin, and retries it as the origin's own rules allow. The caller
// owns the response's header. Reading its body fails if it is incomplete, and the caller must close
// it.
//
// If an error has a method Timeout or InvalidHeader that returns true, Stale treats it accordingly.
type Fetch func(context.Context) (*http.Response, error)

// failure is the kind of error of a Fetch.
type failure int

const (
	failed failure = iota
	timedOut
	invalidHeader
)

func failureOf(err error) failure {
	var slow interface{ Timeout() bool }
	var invalid interface{ InvalidHeader() bool }
	switch {
	case errors.As(err, &invalid) && invalid.InvalidHeader():
		return invalidHeader
	case errors.As(err, &slow) && slow.Timeout():
		return timedOut
	}
	return failed
}
