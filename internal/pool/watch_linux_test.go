package pool

import (
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// If the system rejects watching a socket, a goroutine watches it, and what that reads is not lost.
func TestGoroutineWatchesIfEpollFails(t *testing.T) {
	p := &testPool{Limits: Limits{MaxIdlePerHost: 1}}
	ours, other := sockets(t)
	loop, err := poll.NewLoop()
	if err != nil {
		t.Fatal(err)
	}
	p.watcher.loop, p.watcher.sockets, p.watcher.emptySince = loop, make(map[int]*testConn), p.now()+
		monotime(time.Minute)
	defer p.CloseIdle()
	raw, err := ours.(syscall.Conn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { err = loop.Add(int(fd), 0) }) // a second time it fails
	}
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, p, "x", ours)
	for range 2 {
		c.Keep()
		waitFor(t, "the connection to be watched", func() bool { return p.Count().Watched == 1 })
		if c = open(t, p, "x", nil); c.Conn != ours || !c.HasReader() {
			t.Fatalf("it has no goroutine: %v", c.HasReader())
		}
		if _, err := other.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" || c.HasReader() {
			t.Errorf("%q, %v", b, err)
		}
	}
	c.Drop()
}
