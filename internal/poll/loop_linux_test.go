package poll_test

import (
	"io"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

// A loop reports events whether it has waited for them or not, and Close ends it.
func TestLoopReportsEvents(t *testing.T) {
	const tag = 1<<32 - 1
	for range 2 {
		loop := testkit.Value(poll.NewLoop())(t)
		fd, peer := testkit.SocketPair(t)
		defer poll.Close(fd)
		testkit.Must(t, loop.Add(fd, 7, tag))
		send := make(chan bool)
		go func() {
			for range send {
				_, _ = io.WriteString(peer, "x")
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
			testkit.Equal(t, testkit.Value(poll.Recv(fd, received[:]))(t), 1)
		}
		close(send)
		_, _, err := loop.Wait()
		testkit.Equal(t, err == nil, false, "Wait returned without an error after Close")
	}
}

// Serve reports all input of a descriptor and its end, although it does not check after each event.
// One read for each event leaves the end for the next one, or some of the input.
func TestServeReportsInputAndItsEnd(t *testing.T) {
	loop := testkit.Value(poll.NewLoop())(t)
	const id = 7
	var own atomic.Int32
	received := make(chan int)
	ended := make(chan error)
	go func() {
		var b [3]byte
		ended <- loop.Serve(func(events []poll.Event, _ bool) (hasMore bool) {
			for _, e := range events {
				n, err := poll.Recv(int(own.Load()), b[:])
				if err != nil || e.ID != id {
					t.Errorf("%+v: %v", e, err)
				}
				if n == 0 {
					_ = loop.Remove(int(own.Load()))
				}
				received <- n
				hasMore = hasMore || e.Ended || n == len(b)
			}
			return hasMore
		})
	}()
	for i := range 1000 {
		fd, peer := testkit.SocketPair(t)
		own.Store(int32(fd))
		testkit.Must(t, loop.Watch(fd, id, true, false, false))
		sent, got := 1+i%5, 0
		testkit.Send(t, peer, "abcde"[:sent])
		if i%2 == 0 {
			got += <-received
		}
		peer.Close()
		for n := 1; n > 0; got += n {
			n = <-received
		}
		if got != sent {
			t.Fatalf("%d of %d bytes", got, sent)
		}
		_ = poll.Close(fd)
	}
	_ = loop.Close()
	testkit.Equal(t, <-ended == nil, false, "Serve goes on after Close")
}
