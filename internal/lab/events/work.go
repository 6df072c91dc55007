package events

import (
	"errors"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
)

// maxRepeats limits how often a case is carried out again.
const maxRepeats = 2

// undisturbed carries out a case, and again if the machine disturbed it, which it reports. It
// returns the one whose requests were the least late. After an error it returns the last one.
func undisturbed(timeout time.Duration, carryOut func() (sample.Case, error),
	report func(why string)) (best sample.Case, err error) {
	for n := range 1 + maxRepeats {
		c, err := carryOut()
		if err != nil || c.Absent != "" {
			return c, err
		}
		if n == 0 || c.Latest() < best.Latest() {
			best = c
		}
		why := c.Disturbance(timeout)
		if why == "" {
			return c, nil
		}
		report(why)
	}
	return best, nil
}

// look is what the processors have done until a moment.
type look struct {
	at           time.Time
	server, lab  []proc.Usage
	busy, stolen time.Duration
}

func lookAt(running []*contender.Running, cpus *proc.CPUs) (look, error) {
	all, err := processes(running)
	if err != nil {
		return look{}, err
	}
	l := look{at: time.Now(), lab: make([]proc.Usage, 1)}
	var errs [4]error
	l.server, errs[0] = proc.Usages(all)
	l.lab[0], errs[1] = proc.Self("clients")
	l.busy, _, errs[2] = cpus.Busy()
	l.stolen, errs[3] = cpus.Stolen()
	return l, errors.Join(errs[:]...)
}

// until returns what the processors did between two looks.
func (l *look) until(later *look, cores int) sample.Work {
	var server, lab proc.Sum
	server.Add(l.server, later.server)
	lab.Add(l.lab, later.lab)
	return sample.Work{
		Cores: cores, Length: later.at.Sub(l.at), Server: server.CPU(), Clients: lab.CPU(),
		Busy: later.busy - l.busy, Stolen: later.stolen - l.stolen,
	}
}

// processes returns the processes of contenders, each once.
func processes(running []*contender.Running) (all []proc.Process, err error) {
	for _, r := range running {
		some, err := r.Processes()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b proc.Process) int { return a.PID - b.PID })
	return slices.CompactFunc(all, func(a, b proc.Process) bool { return a.PID == b.PID }), nil
}
