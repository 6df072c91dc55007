package load

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

// fcgiWorker returns a worker for a FastCGI plan, connected to a listener.
func fcgiWorker(t *testing.T, p Plan, conns int) *worker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	p.URL, p.Threads = "fcgi://"+l.Addr().String(), 1
	j, err := p.prepare(context.Background())
	testkit.Must(t, err)
	w, err := newWorker(newRun(j), 0, 0, conns)
	testkit.Must(t, err)
	t.Cleanup(w.close)
	return w
}

// A request whose connection closed before the response keeps its due time.
func TestUnsentResponseKeepsItsDueTime(t *testing.T) {
	w := fcgiWorker(t, Plan{Connections: 3, Spare: 1, Pace: Constant(1000)}, 3)
	w.pacer.began, w.now = 1, 1e9
	c := &w.conns[2]
	first, ok := w.isDue(2)
	second, okToo := w.isDue(2)
	if !ok || !okToo || second != first+1e6 {
		t.Fatalf("due: %t and %t, since %d and %d", ok, okToo, first, second)
	}
	c.reusable.exchanges[0], c.inFlight, c.responses = exchange{due: first, active: true}, 1, 2
	w.retryOnNewConn(2)
	if again, ok := w.isDue(4); !ok || again != first || c.state != opening {
		t.Errorf("due: %t, since %d and then %d; the connection is %s", ok, first, again, c.activity())
	}
	if third, ok := w.isDue(4); !ok || third != second+1e6 {
		t.Errorf("due: %t, since %d; want what follows %d", ok, third, second)
	}
}

// A worker closes connections itself only after the server did so several times in a row.
func TestWorkerClosesConnectionsOnlyAfterRepeatedCloses(t *testing.T) {
	w := fcgiWorker(t, Plan{Connections: 1}, 1)
	c := &w.conns[0]
	for _, test := range []struct{ responses, want int }{{1, 1}, {5, 0}, {1, 1}, {2, 0}, {1, 1}, {1, 2}} {
		for range test.responses {
			c.response.status, c.response.slot, c.inFlight = 200, 0, 1
			c.reusable.exchanges[0].message = &w.messages[0]
			w.completeExchange(0, &c.reusable.exchanges[0])
		}
		w.retryOnNewConn(0)
		if int(c.reusable.singleUses) != test.want || c.responses != 0 {
			t.Errorf("after %d responses: %d in a row", test.responses, c.reusable.singleUses)
		}
	}
}

// A connection that failed is reopened without a pause. Only if several in a row end soon and
// without a response, the next sweep reopens it.
func TestFailedConnectionsAreReopenedAtOnce(t *testing.T) {
	w := fcgiWorker(t, Plan{Connections: 1}, 1)
	c := &w.conns[0]
	end := map[string]func(){
		"fails":     func() { w.failConn(0, FailedRead, "x") },
		"times out": func() { w.timeOut(0) },
		"refused":   func() { w.cannotConnect(0, FailedConnect, "x") },
		"closes":    func() { w.reconnect(0) },
	}
	for name, close := range end {
		c.reusable.fruitless = 0
		for i, test := range []struct {
			responses int
			lived     time.Duration
			want      connState
		}{
			{1, 0, opening}, {0, 0, opening}, {0, 0, opening}, {0, 0, closed}, {0, 0, closed},
			{0, time.Second, opening}, {0, 0, closed}, {1, 0, opening}, {0, 0, opening},
		} {
			w.openConns()
			w.sweep()
			w.now = c.connectStart + int64(test.lived)
			c.responses = test.responses
			close()
			if w.openConns(); c.state != test.want {
				t.Errorf("%s, %d: %+v: the connection is %s", name, i, test, c.activity())
			}
		}
	}
}

// A response that arrives before the whole request was sent ends the sending.
func TestEarlyResponseEndsSending(t *testing.T) {
	w := fcgiWorker(t, Plan{Connections: 1}, 1)
	w.openConns()
	for events := []poll.Event(nil); len(events) == 0; {
		var err error
		if events, err = w.poller.Wait(time.Second); err != nil {
			t.Fatal(err)
		}
	}
	c := &w.conns[0]
	for got, want := range map[stage]int{beforeHead: 0, inHead: 0, inBody: 1} {
		c.state, c.out, c.response.stage = open, []byte("x"), got
		if w.handleEvent(&poll.Event{Writable: true}); c.unsent() != want {
			t.Errorf("%d: %d bytes unsent, want %d", got, c.unsent(), want)
		}
	}
}

// Due is the number of requests that the schedule drew within the duration, even if the worker
// notices the end late. Those that the generator sent late do not count.
func TestDueIsTheNumberDrawnWithinTheDuration(t *testing.T) {
	for _, pace := range []Pace{Constant(50), {Steps: Constant(50).Steps, Poisson: true, Seed: 3}} {
		drawn := newSchedule(&pace, 1, 0, 1)
		want := 0
		for ; drawn.due < int64(2*time.Second); drawn.advance() {
			want++
		}
		w := fcgiWorker(t, Plan{Connections: 1, Duration: 2 * time.Second, Pace: pace}, 1)
		w.beginCounting()
		w.pacer.began = w.began
		for range 10 {
			w.pacer.pop(w.began + int64(time.Second))
		}
		w.queueIdle(0)
		w.clock = w.clock.Add(-time.Minute)
		w.endCounting()
		if w.tally.due != float64(want-1) || w.tally.waiting.Count() != int64(want-1-10) {
			t.Errorf("%+v: %v due, %d waiting; want %d, of which one was sent late", pace, w.tally.due,
				w.tally.waiting.Count(), want)
		}
	}
}

// A run counts as many errors as MaxErrors, however many arrive before all workers have ended.
func TestErrorsBeyondMaxErrorsDoNotCount(t *testing.T) {
	w := fcgiWorker(t, Plan{Connections: 1, MaxErrors: 3}, 1)
	w.run.setPhase(measuring)
	w.beginCounting()
	for range 5 {
		c := &w.conns[0]
		c.response.status, c.response.slot, c.inFlight = 500, 0, 1
		c.reusable.exchanges[0].message = &w.messages[0]
		w.completeExchange(0, &c.reusable.exchanges[0])
		w.recordError(FailedRead, "x")
	}
	if e := w.tally.errors; e.Total() != 3 || w.tally.requests != e.Status || phase(w.run.phase.Load()) != stopping {
		t.Errorf("%d requests, errors %+v, phase %d", w.tally.requests, e, w.run.phase.Load())
	}
}
