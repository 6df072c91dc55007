package lab

import (
	"time"

	"github.com/tarehq/tare/lab/trial"
)

// unsettledToWarm is after how many trials in a row that had not settled a contender is warmed up
// for longer. One may be chance.
const unsettledToWarm = 2

// settling is how long a contender has to be loaded until its rate is steady.
type settling struct {
	warmup  time.Duration // added to the experiment's
	longest time.Duration // of the last trials in a row that had not settled
	in      int           // how many those are
}

// warm sets how long the next trial of a contender is warmed up.
func (w *weighing) warm(name string) {
	w.bench.Warmup = time.Duration(w.trials.Warmup) + w.settlings[name].warmup
}

// settle takes in whether a trial had settled when measuring began.
func (w *weighing) settle(rec *trial.Record) {
	s := w.settlings[rec.Contender]
	if rec.Unsettled == 0 {
		s.in, s.longest = 0, 0
	} else {
		s.in++
		s.longest = max(s.longest, rec.Unsettled)
	}
	if s.in == unsettledToWarm {
		s.warmup = min(s.warmup+s.longest, time.Duration(w.trials.Measure))
		s.in, s.longest = 0, 0
		w.note("%s is warmed up for %v from block %d on: its rate had not settled before.", w.entrant(rec.Contender).Title,
			time.Duration(w.trials.Warmup)+s.warmup, rec.Block+1)
	}
	w.settlings[rec.Contender] = s
}
