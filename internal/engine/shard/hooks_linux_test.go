package shard

import (
	"context"
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

// The end of a connection is reported although the hook that was running has panicked.
func TestStatesAreReportedAfterPanic(t *testing.T) {
	s := newTestServer(t, nil, nil, nil)
	defer s.Close()
	begun, end, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateActive:
			close(begun)
			<-end
			panic(http.ErrAbortHandler)
		case http.StateClosed:
			close(closed)
		}
	}
	h := newHookConn(&shardConn{}, &s.config)
	h.conn.place.Store(s.group.nextPlacement(&s.config))
	go func() {
		h.enterState(http.StateActive)
		h.reportOrEnd(http.StateActive)
	}()
	<-begun
	h.setState(http.StateClosed) // the hook is still running
	close(end)
	<-closed
}

// A hook that ends the goroutine of a new connection leaves neither a descriptor nor a count.
func TestHookThatExitsEndsNewConnection(t *testing.T) {
	s := newTestServer(t, nil, nil, nil)
	defer s.Close()
	s.config.ConnContext = func(context.Context, net.Conn) context.Context {
		runtime.Goexit()
		return nil
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[1])
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.group.announceAndPut(newShardConn(s.group.nextPlacement(&s.config), pair[0], "a client"))
	}()
	<-ended
	if n, err := syscall.Read(pair[1], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the client reads %d bytes, %v", n, err)
	}
	if n := s.group.Open(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
}
