package client

import (
	"net"
	"testing"
	"time"
)

// A connection that the transport has not taken is closed, and nothing of it remains.
func TestHandoverIsWithdrawn(t *testing.T) {
	k := key{host: "host", port: "443", tls: true}
	first, _ := net.Pipe()
	second, _ := net.Pipe()
	o := &http2Transport{conns: map[string][]net.Conn{k.addr(): {first, second}}}
	for _, nc := range []net.Conn{second, first} {
		(&http2Handover{to: o, key: k, conn: nc}).withdraw()
		if nc.SetDeadline(time.Time{}) == nil {
			t.Error("the connection is open")
		}
	}
	if len(o.conns) != 0 {
		t.Errorf("%d addresses remain", len(o.conns))
	}
	taken, _ := net.Pipe()
	(&http2Handover{to: o, key: k, conn: taken}).withdraw()
	if taken.SetDeadline(time.Time{}) != nil {
		t.Error("a connection that the transport has taken is closed")
	}
}
