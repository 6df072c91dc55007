package netconn

import (
	"net"
	"net/http"
	"testing"
)

// Shutdown does not close an idle connection on which a request has arrived that was not read.
func TestConnWithUnreadInputIsNotClaimed(t *testing.T) {
	c := New(&Config{}, nil, t.Context())
	c.setState(http.StateIdle)
	if c.ClaimForClosing(func(net.Conn) bool { return false }) {
		t.Error("claimed while input is unread")
	}
	if !c.ClaimForClosing(func(net.Conn) bool { return true }) {
		t.Error("not claimed")
	}
}
