package poll_test

import (
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

// A loop reports events whether it has waited for them or not, and Close ends it.
func TestLoopReportsEvents(t *testing.T) {
	const tag = 1<<32 - 1
	for range 2 {
		loop, err := poll.NewLoop()
		testkit.Must(t, err)
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
		testkit.Must(t, err)
		defer poll.Close(pair[0])
		defer poll.Close(pair[1])
		testkit.Must(t, loop.Add(pair[0], 7, tag))
		send := make(chan bool)
		go func() {
			for range send {
				_, _ = poll.Send(pair[1], []byte("x"))
			}
			loop.Close()
		}()
		var received [1]byte
		for range 300 {
			send <- true
			events, _, err := loop.Wait()
			if err != nil || len(events) != 1 || events[0].ID != 7 || events[0].Tag != tag || !events[0].Readable {
				t.Fatalf("%v, %v", events, err)
			}
			if n, err := poll.Recv(pair[0], received[:]); n != 1 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		close(send)
		if events, _, err := loop.Wait(); err == nil {
			t.Errorf("%v after Close", events)
		}
	}
}
