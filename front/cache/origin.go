package cache

import (
	"context"
	"errors"
	"net/http"
)

// An Origin is where answers come from.
type Origin interface {
	// Prepare makes a request of the client's. It is called while the client's request is there; nothing of that may be looked at by
	// the Fetch, which may go on behind its back, and after its end. An error of Prepare is what the request gets.
	Prepare(OriginRequest) (Fetch, error)
	// Sent returns the header and the host of the request as the origin gets it, without what Ask.Whole leaves out: what a Vary
	// is about, and Authorization. It is called while the client's request is there. The header is only read.
	Sent() (header http.Header, host string)
}

// Ask is how the request of the origin differs from the client's.
type OriginRequest struct {
	// Method is that to ask with.
	Method string
	// Whole leaves out what asks for a part of the answer, or for none under a condition: If-Match, If-None-Match,
	// If-Modified-Since, If-Unmodified-Since, If-Range, Range.
	Whole bool
	// Behind says that the client's request does not wait: its response has begun.
	Behind bool
	// Etag and LastModified, if they are not empty, are sent as If-None-Match and If-Modified-Since then.
	Etag, LastModified string
}

// Apply changes the header of a request of the client's accordingly.
func (a *OriginRequest) Apply(h http.Header) {
	if !a.Whole {
		return
	}
	for _, name := range [...]string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range"} {
		delete(h, name)
	}
	if a.Etag != "" {
		h["If-None-Match"] = []string{a.Etag}
	}
	if a.LastModified != "" {
		h["If-Modified-Since"] = []string{a.LastModified}
	}
}

// Fetch asks the origin, once, and again as the origin's own rules have it. The answer's header is the caller's. Its body ends with an error if it is not complete, and must be closed.
//
// Of an error the cache asks whether it has a method Timeout or InvalidHeader that returns true, for Stale.
type Fetch func(context.Context) (*http.Response, error)

// failure is what kind of error a Fetch ended with.
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
