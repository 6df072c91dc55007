package contender

import (
	"net"
	"strconv"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A search for a free port never takes a port for a moment that another process has claimed.
func TestClaimedPortIsLeftAlone(t *testing.T) {
	var own, other Claims
	t.Cleanup(own.Release)
	port := testkit.Value(own.Claim())(t)
	searched := make(chan bool)
	go func() {
		defer close(searched)
		for range 1000 {
			if other.claim(port) == nil {
				t.Error("it is claimed twice")
			}
		}
	}()
	for isOpen := true; isOpen; {
		if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err != nil {
			t.Error(err)
		} else {
			testkit.Check(t, l.Close())
		}
		select {
		case _, isOpen = <-searched:
		default:
		}
	}
}
