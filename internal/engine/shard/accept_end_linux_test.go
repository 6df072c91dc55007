package shard

import (
	"sync"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// placing returns the shards of a new server, a placement on them, and a connected descriptor.
func placing(t *testing.T) (s *testServer, h *placement, fd int) {
	t.Helper()
	s = newTestServer(t, nil, nil, nil)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	testkit.Must(t, err)
	testkit.Must(t, syscall.Close(pair[1]))
	return s, s.group.nextPlacement(&s.config), pair[0]
}

// Close closes also a connection that is being placed.
func TestCloseClosesConnectionThatIsBeingPlaced(t *testing.T) {
	for i := range 2000 {
		s, place, fd := placing(t)
		g := s.group
		var closing sync.WaitGroup
		begin := make(chan bool)
		closing.Go(func() {
			<-begin
			s.Close()
		})
		close(begin)
		for range i % 200 { // another moment each time
			_ = g.now()
		}
		placeConn(g, place, fd)
		closing.Wait()
		if n := g.Open(); n != 0 {
			t.Fatalf("%d connections are open after Close", n)
		}
	}
}

// A connection that was closed just after it was placed is not added to a loop. Another file may
// have its descriptor.
func TestClosedConnectionIsNotAddedToLoop(t *testing.T) {
	s, place, other := placing(t)
	defer s.Close()
	placeConn(s.group, place, other) // keeps the shards
	const fd = 500                   // which nothing else takes
	testkit.Must(t, syscall.Dup3(other, fd, syscall.O_CLOEXEC))
	k := placeConn(s.group, place, fd)
	testkit.Must(t, k.Close())
	testkit.Must(t, syscall.Dup3(other, fd, syscall.O_CLOEXEC))
	defer syscall.Close(fd)
	k.addOrClose()
	if err := place.shard.loop.Add(fd, fd, 0); err != nil {
		t.Errorf("the loop reports events of another file: %v", err)
	}
}

// A descriptor that the table has no place for is refused.
func TestTableRefusesHighDescriptors(t *testing.T) {
	const fd = tablePages * pageConns
	var table connTable
	k := new(shardConn)
	if table.put(fd, k) {
		t.Error("put accepts it")
	}
	table.remove(fd, k) // by Close
}
