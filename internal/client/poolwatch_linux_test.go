package client

import (
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

// If the system rejects watching a socket, a goroutine watches it, and what that reads is not lost.
func TestGoroutineWatchesIfEpollFails(t *testing.T) {
	p := &pool{limits: limits{maxIdlePerHost: 1}}
	ours, other := sockets(t)
	loop, err := poll.NewLoop()
	testkit.Must(t, err)
	p.watcher.loop, p.watcher.sockets, p.watcher.emptySince = loop, make(map[int]*conn), p.now()+
		monotime(time.Minute)
	defer p.closeIdle()
	raw, err := ours.(syscall.Conn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { err = loop.Add(int(fd), 0, 0) }) // a second time it fails
	}
	testkit.Must(t, err)
	c := open(t, p, "x", ours)
	for range 2 {
		c.keep()
		testkit.WaitFor(t, "the connection to be watched", func() bool { return p.count().Watched == 1 })
		if c = open(t, p, "x", nil); c.Conn != ours || !c.hasReader() {
			t.Fatalf("it has no goroutine: %v", c.hasReader())
		}
		if _, err := other.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" || c.hasReader() {
			t.Errorf("%q, %v", b, err)
		}
	}
	c.drop()
}
