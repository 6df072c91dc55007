package engine

import (
	"net/http"
	"testing"

	"github.com/tarehq/tare/internal/engine/netconn"
)

// Whether HTTP/2 is served does not depend on whether the server was just unused.
func TestUnusedServerStillOffersHTTP2(t *testing.T) {
	s := New(&http.Server{Handler: http.NotFoundHandler()})
	if err := s.http2.configure(); err != nil || !s.http2.supported() {
		t.Fatalf("HTTP/2 does not work: %v", err)
	}
	s.stopIfUnused()
	if s.http2.innerServer() != nil {
		t.Error("the inner server of an unused one has not ended")
	}
	if !s.http2.supported() {
		t.Error("HTTP/2 is not offered by a server that has been unused")
	}
}

// An HTTP/2 connection may end before moveFromServer has moved it.
func TestServerIsUnusedAfterShortHTTP2Connection(t *testing.T) {
	s := New(&http.Server{Handler: http.NotFoundHandler()})
	unused := 0
	s.Unused = func() { unused++ }
	c := &netconn.Conn{}
	s.track(c)
	if s.http2.openConns.Add(-1) == 0 { // as the inner server's hook does
		t.Error("the connection was counted")
	}
	s.http2.moveFromServer(c)
	if unused != 1 || !s.IsUnused() {
		t.Errorf("%d calls of Unused, %v", unused, s.IsUnused())
	}
}
