package shard

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h1"
	"github.com/tarehq/tare/internal/engine/predict"
	"github.com/tarehq/tare/internal/engine/reuse"
)

// watched returns a group of one shard without connections, whose runners do nothing.
func watched() (*Group, *shard) {
	g := &Group{epoch: time.Now(), stopped: make(chan struct{})}
	g.guard.wakeup = make(chan struct{}, 1)
	s := &shard{group: g}
	s.runners = reuse.NewWorkers(func(*runner, job) time.Time { return time.Now() })
	s.runners.Stop()
	g.shards.Store(&shardList{[]*shard{s}, 1})
	return g, s
}

func word(sequence uint64, id predict.SlotID, serving uint64) uint64 {
	return sequence<<sequenceShift | uint64(id)<<slotShift | serving
}

func TestLeaderInSameHandlerTwiceIsReplaced(t *testing.T) {
	g, s := watched()
	var words observations
	id := predict.SlotFor("GET", "/hung")
	for i, step := range []struct {
		word           uint64
		late           bool
		busy, replaced bool
	}{
		{word(0, predict.NoSlot, 0), false, false, false},
		{word(1, predict.NoSlot, 1), false, true, false},
		{word(2, id, 1), false, true, false},
		{word(3, id, 1), false, true, false}, // the same route, but another request
		{word(3, id, 0), false, true, false},
		{word(3, id, 0), false, false, false},
		{word(4, id, 1), false, true, false},
		// the check was late, so that the leader may be late, too
		{word(4, id, 1), true, true, false},
		{word(4, id, 1), true, true, true}, // but not a second time
		{word(9, id, 1), true, true, false},
		{word(9, id, 1), false, true, true},
	} {
		s.word.Store(step.word)
		busy, stalled := words.check(g.allShards(), step.late)
		if busy != step.busy || (len(stalled) == 1) != step.replaced || step.replaced && stalled[0] != id {
			t.Errorf("step %d: busy %v, slots %v replaced", i, busy, stalled)
		}
		if got := s.word.Load(); step.replaced && got != wordAfter(step.word) || !step.replaced && got != step.word {
			t.Errorf("step %d: the word is %x after %x", i, got, step.word)
		}
	}
	if next := wordAfter(word(9, id, 1)); next != word(10, predict.NoSlot, 0) {
		t.Errorf("the word of the next leader is %x", next)
	}
}

// A handler that hangs never returns, so that its route is charged when the lead is taken.
func TestHungHandlerIsChargedWhileItRuns(t *testing.T) {
	g, s := watched()
	id, other := predict.SlotFor("GET", "/hung"), predict.SlotFor("GET", "/other")
	for _, quick := range []predict.SlotID{id, other} {
		for !g.predictor.At(quick).IsQuick() {
			g.predictor.At(quick).Learn(time.Microsecond)
		}
	}
	r := &runner{shard: s, sequence: 7}
	r.token = word(7, predict.NoSlot, 1)
	s.word.Store(r.token)
	if !r.enterHandler(id) || !s.takeLead(r.token) {
		t.Fatal("the leader did not lead")
	}
	if g.predictor.At(id).IsQuick() {
		t.Error("the route of the hung handler is still expected to be quick")
	}
	if !g.predictor.At(other).IsQuick() {
		t.Error("another route was charged")
	}
	if r.leads() || r.enterHandler(id) || s.takeLead(r.token) {
		t.Error("the old leader still leads")
	}
}

// A loop that starts to serve just when the stall guard falls asleep is guarded. Both happen at the
// same instant of the bubble's clock, in any order.
func TestStallGuardNeverSleepsWhileAHandlerRuns(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			g, s := watched()
			done := make(chan bool)
			go func() { g.guard.run(g); close(done) }()
			asleep := slowAfter*fastInterval + (sleepAfter-slowAfter)*slowInterval
			time.Sleep(asleep)
			r := &runner{shard: s}
			r.beginServing()
			time.Sleep(3 * slowInterval)
			if r.leads() {
				t.Error("the lead was not taken from a handler that hangs")
			}
			time.Sleep(time.Minute)
			if g.guard.pace.Load() != paceAsleep {
				t.Error("the watcher of an idle server does not sleep")
			}
			close(g.stopped)
			<-done
		})
	}
}

// pipeTransport only sends.
type pipeTransport struct {
	exchange.Connection
	nc net.Conn
}

func (p pipeTransport) Send(b []byte, _ time.Duration) error {
	_, err := p.nc.Write(b)
	return err
}

// A leader may be replaced between naming its handler and closing the gate. It then sends the
// waiting responses before the handler runs, because no other goroutine would.
func TestResponsesGatedTooLateAreSent(t *testing.T) {
	for _, late := range []bool{false, true} {
		_, s := watched()
		ours, theirs := net.Pipe()
		r, c := &runner{shard: s}, exchange.NewConn(&exchange.Config{Protocol: h1.Protocol()}, new(connection.Buffers), inSize)
		c.Attach(pipeTransport{nc: ours}, "")
		c.Out = []byte("responses")
		r.beginServing()
		if !r.enterHandler(predict.SlotFor("GET", "/hung")) || late && !s.takeLead(r.token) {
			t.Fatal("the leader did not lead")
		}
		got := make(chan string)
		go func() {
			b, _ := io.ReadAll(theirs)
			got <- string(b)
		}()
		err := r.gateOutput(&shardConn{conn: c})
		ours.Close()
		if sent := <-got; err != nil || (sent == "responses") != late {
			t.Errorf("late %v: sent %q, %v", late, sent, err)
		}
	}
}
