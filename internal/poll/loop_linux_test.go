package poll_test

import (
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/poll"
)

// A loop that lingers reports what one that does not reports, and Close ends it.
func TestLoopThatLingersReportsEvents(t *testing.T) {
	for _, lingers := range []bool{false, true} {
		loop, err := poll.NewLoop()
		if err != nil {
			t.Fatal(err)
		}
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer poll.Close(pair[0])
		defer poll.Close(pair[1])
		if err := loop.Add(pair[0], 7); err != nil {
			t.Fatal(err)
		}
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
			events, waited, err := loop.Wait(lingers)
			if err != nil || len(events) != 1 || events[0].ID != 7 || !events[0].Readable {
				t.Fatalf("lingers %v: %v, %v", lingers, events, err)
			}
			if waited == poll.Lingered && !lingers {
				t.Error("the loop lingers")
			}
			if n, err := poll.Recv(pair[0], received[:]); n != 1 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		close(send)
		if events, _, err := loop.Wait(lingers); err == nil {
			t.Errorf("lingers %v: %v after Close", lingers, events)
		}
	}
}
