package shard

import (
	"net"
	"net/http"
	"runtime"
	"syscall"
	"testing"
)

// A connection that moves to another loop keeps its hooks.
func TestMovedConnectionKeepsItsHooks(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s := newTestServer(t, nil, nil, nil)
	defer s.Close()
	s.config.ConnState = func(net.Conn, http.ConnState) {}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[1])
	k := placeConn(s.group, s.group.nextPlacement(&s.config), pair[0])
	if err := k.addToLoop(); err != nil {
		t.Fatal(err)
	}
	hooks, from := k.hooks(), k.shard()
	for _, to := range s.group.allShards() {
		if to != from && !k.moveTo(to) {
			t.Fatal("the connection is on no loop")
		}
	}
	if k.shard() == from || hooks == nil || k.hooks() != hooks {
		t.Errorf("hooks %p of shard %d, %p before of shard %d", k.hooks(), k.shard().index, hooks, from.index)
	}
}
