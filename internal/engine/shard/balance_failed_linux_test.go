package shard

import (
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// A connection stays where it is if another loop cannot report it.
func TestConnectionThatCannotMoveIsStillServed(t *testing.T) {
	s := serveOn(t, tcpListener(t), nil)
	c, _ := s.connect()
	broken, err := poll.NewLoop()
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	var k *shardConn
	s.server.group.conns.each(func(found *shardConn) { k = found })
	for start := time.Now(); !k.state.move(stateWaiting, stateServed); time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("the connection does not wait")
		}
	}
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
