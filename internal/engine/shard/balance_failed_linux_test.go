package shard

import (
	"testing"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

// A connection stays where it is if another loop cannot report it.
func TestConnectionThatCannotMoveIsStillServed(t *testing.T) {
	s := serveOn(t, tcpListener(t), nil)
	c, _ := s.connect()
	broken, err := poll.NewLoop()
	testkit.Must(t, err)
	testkit.Must(t, broken.Close())
	var k *shardConn
	s.server.group.conns.each(func(found *shardConn) { k = found })
	testkit.WaitFor(t, "the connection to wait", func() bool { return k.state.move(stateWaiting, stateServed) })
	before := k.place.Load()
	if !k.moveTo(&shard{group: s.server.group, loop: broken}) || k.place.Load() != before {
		t.Error("the connection was moved to a loop that cannot report it")
	}
	if !k.park() {
		t.Fatal("an event was recorded")
	}
	if _, err := request(c); err != nil {
		t.Error(err)
	}
}
