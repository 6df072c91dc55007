package client

import (
	"context"
	"testing"
	"time"

	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// An application that has received a request learns by ABORT_REQUEST that the request is canceled,
// over every kind of connection, new or kept.
func TestCanceledFastCGIRequestIsAborted(t *testing.T) {
	for _, network := range networks {
		for _, isKept := range []bool{false, true} {
			// the application may receive the request before the Client knows that it was sent
			for pause := time.Millisecond; !abortsAfter(t, network, isKept, pause); pause *= 2 {
				if pause > time.Second {
					t.Errorf("%s, kept connection %v: no ABORT_REQUEST", network, isKept)
					break
				}
			}
		}
	}
}

// abortsAfter cancels a request some time after an application has received it, and reports whether
// the application receives ABORT_REQUEST.
func abortsAfter(t *testing.T, network string, isKept bool, pause time.Duration) bool {
	s := newSite(t, protocols()[1], network)
	ctx, cancel := context.WithCancel(t.Context())
	aborted := make(chan bool, 1)
	s.serve(func(_ int, c speaker) {
		if isKept {
			receive(c)
			c.respond("first")
		}
		receive(c)
		time.Sleep(pause)
		cancel()
		piece, _ := c.(*fastcgiSpeaker).next()
		aborted <- piece.Type == wire.AbortRequest
	})
	if isKept {
		s.must(s.request("GET", nil), "first")
	}
	if _, err := s.the().RoundTrip(s.request("GET", nil).WithContext(ctx)); err == nil {
		t.Error("the canceled request succeeded")
	}
	return <-aborted
}
