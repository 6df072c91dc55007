package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/load"
)

type run struct {
	server *server
	plan   load.Plan
	start  chan Start // with room for one
	stop   context.CancelFunc
	ended  atomic.Bool   // set before the result is queued: the controller may send the next plan then
	done   chan struct{} // closed when the result was queued

	// Only the goroutine that executes the run uses these.
	isStarted bool
	cpu       time.Duration // of the process at the last record
}

const samplesPerRecord = 1000 // limits the length of a line

func (r *run) execute(ctx context.Context) {
	defer close(r.done)
	defer r.stop()
	out := r.server.out
	r.plan.Trace = &load.Trace{
		Connected: func() { r.awaitStart(ctx) },
		Started:   func() { r.begin(ctx) },
		Second:    r.second,
	}
	res, err := load.Run(ctx, r.plan)
	last := Record{Result: res}
	if err != nil {
		last.Error = describe(err)
	}
	if res != nil {
		res.Timeline = nil // the records of the seconds hold it
		for all := res.Samples; len(all) > 0; {
			n := min(len(all), samplesPerRecord)
			var numbers [][12]int64
			for i := range all[:n] {
				numbers = AppendSample(numbers, &all[i])
			}
			out.wait(&Record{Samples: numbers})
			all = all[n:]
		}
	}
	r.ended.Store(true)
	out.wait(&last)
}

// awaitStart reports that the agent is ready and waits for the start. Meanwhile no request is sent.
func (r *run) awaitStart(ctx context.Context) {
	r.isStarted = true
	r.server.out.send(Record{Ready: &Moment{r.server.now()}})
	select {
	case s := <-r.start:
		if s.At != 0 {
			pause(ctx, s.At-r.server.now())
		}
	case <-ctx.Done():
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// begin reports that measuring begins. A plan that measures from the first connection on waits for
// the start here.
func (r *run) begin(ctx context.Context) {
	if !r.isStarted {
		r.awaitStart(ctx)
	}
	r.cpu = processTime()
	if ctx.Err() == nil {
		r.server.out.send(Record{Began: &Moment{r.server.now()}})
	}
}

func (r *run) second(s load.Second) {
	spent := processTime()
	r.server.out.send(Record{Second: &s, CPU: (spent - r.cpu).Seconds()})
	r.cpu = spent
}
