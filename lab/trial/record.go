// Package trial runs contenders under load so that they can be compared, and records what it measured.
//
// A block starts all contenders once, as fresh processes, and loads them in turns: in each round every
// contender has one slice of load, in random order, while the others sleep. Whatever drifts on the
// machine drifts for all of a round. A contender that cannot run beside others is measured alone, in a
// trial: its processes are started, loaded once and ended. Every record is written to the journal when
// its block ends.
package trial

import (
	"time"

	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/proc"
	"github.com/tarehq/tare/load"
)

// Condition is what is varied besides the contender.
type Condition struct {
	Cores       int `json:"cores"` // that the servers may use; 0 is all there are, shared with the generator
	Connections int `json:"connections"`

	// Rate is how many requests a second every contender is asked. 0 is saturation: the next
	// request is sent when the last was answered.
	Rate float64 `json:"rate,omitempty"`

	Procs   int `json:"procs,omitempty"`   // GOMAXPROCS of the application, or its processes; 0 is as many as cores
	Workers int `json:"workers,omitempty"` // of nginx; 0 is as many as cores

	// Axis is what is varied in a sweep. It is empty in all other trials, of which those of
	// sweeps are no part even if all else is the same.
	Axis string `json:"axis,omitempty"`
}

// Saturated reports whether the next request is sent when the last was answered.
func (c Condition) Saturated() bool { return c.Rate == 0 }

// Record is what one trial showed.
type Record struct {
	Block     int       `json:"block"` // from 1
	Condition           // under which
	Contender string    `json:"contender"`
	Start     time.Time `json:"start"`

	Load  *load.Result           `json:"load,omitempty"`
	Costs map[string][]proc.Cost `json:"costs,omitempty"` // of the servers' processes, by role

	// Generator is what this process cost, which is the generator and the lab around it.
	Generator *proc.Cost `json:"generator,omitempty"`

	// Attribution is what the kernel counted; nil in a trial that was timed.
	Attribution *Attribution `json:"attribution,omitempty"`

	// Others is the CPU time that neither the servers nor the generator
	// account for: other programs, and the kernel's own work.
	Others time.Duration `json:"othersNs"`

	// MachineAccepted is how many TCP connections were accepted while measuring, by
	// any program on the machine: the kernel does not tell whose they are.
	MachineAccepted uint64 `json:"machineAccepted"`

	// Slices are the turns that the contender had while others were up; none in a trial of one that
	// was alone.
	Slices []Slice `json:"slices,omitempty"`
	// Asleep is what it cost while others had their turns.
	Asleep Asleep `json:"asleep,omitzero"`
	// Alone says why a block of side-by-side slices measured this contender alone.
	Alone string `json:"alone,omitempty"`

	// Failure says what went wrong; then there is nothing else.
	Failure string `json:"failure,omitempty"`
}

// Slice is one turn of a contender in a block.
type Slice struct {
	Round    int                      `json:"round"`    // from 1; every contender of the block has one slice in each
	Offset   time.Duration            `json:"offsetNs"` // since the record's Start
	Took     time.Duration            `json:"tookNs"`
	Requests uint64                   `json:"requests"`
	CPU      map[string]time.Duration `json:"cpuNs"`    // of the servers' processes, by role
	Others   time.Duration            `json:"othersNs"` // as in Record, by the share of the whole round; a little below 0 by chance

	// Probe is how long a small piece of work took on the servers' processors meanwhile, on the mean. 0 is unknown:
	// where the servers share all processors with the generator there is none.
	Probe time.Duration `json:"probeNs,omitempty"`
}

// Asleep is what a contender cost of which nothing was asked.
type Asleep struct {
	For time.Duration `json:"forNs"`
	CPU time.Duration `json:"cpuNs"`
}

// Share is the share of a CPU.
func (a Asleep) Share() float64 { return a.CPU.Seconds() / max(a.For.Seconds(), 1e-9) }

// Parts returns the record's slices, or itself as one of a record without.
func (r *Record) Parts() []Slice {
	if len(r.Slices) > 0 {
		return r.Slices
	}
	whole := Slice{Took: r.measured(), Requests: r.Load.Requests, CPU: make(map[string]time.Duration), Others: r.Others}
	for role, costs := range r.Costs {
		for _, c := range costs {
			whole.CPU[role] += c.CPU()
		}
	}
	return []Slice{whole}
}

// WeightUs returns the CPU time for a request of the processes of a role, in microseconds; ""
// is all roles.
func (s *Slice) WeightUs(role string) float64 {
	var total time.Duration
	for of, spent := range s.CPU {
		if role == "" || role == of {
			total += spent
		}
	}
	return total.Seconds() * 1e6 / float64(max(1, s.Requests))
}

// PerSecond returns the rate of requests.
func (s *Slice) PerSecond() float64 { return float64(s.Requests) / max(s.Took.Seconds(), 1e-9) }

// CPUPerRequest returns the CPU time that the servers' processes of a role
// spent on a request; "" is all roles.
func (r *Record) CPUPerRequest(role string) (user, sys time.Duration) {
	for of, costs := range r.Costs {
		if role != "" && role != of {
			continue
		}
		for _, c := range costs {
			user += c.User
			sys += c.Sys
		}
	}
	n := time.Duration(max(1, r.Load.Requests))
	return user / n, sys / n
}

// Timed reports whether the trial succeeded and its times mean something.
func (r *Record) Timed() bool { return r.Failure == "" && r.Load != nil && r.Attribution == nil }

// measured is for how long the contender was loaded; 0 if that failed.
func (r *Record) measured() time.Duration {
	if r.Load == nil {
		return 0
	}
	return time.Duration(r.Load.Seconds * float64(time.Second))
}

// CPUUsPerRequest returns what CPUPerRequest does in microseconds, whose parts add up to
// WeightUs.
func (r *Record) CPUUsPerRequest(role string) (user, sys float64) {
	n := float64(max(1, r.Load.Requests))
	for _, c := range r.Costs[role] {
		user += c.User.Seconds() * 1e6 / n
		sys += c.Sys.Seconds() * 1e6 / n
	}
	return user, sys
}

// FaultsPerRequest returns page faults of the servers' processes for a request.
func (r *Record) FaultsPerRequest() (minor, major float64) {
	n := float64(max(1, r.Load.Requests))
	for _, costs := range r.Costs {
		for _, c := range costs {
			minor += float64(c.MinorFaults) / n
			major += float64(c.MajorFaults) / n
		}
	}
	return minor, major
}

// WeightUs returns the CPU time of all the servers' processes for a request,
// in microseconds.
func (r *Record) WeightUs() float64 {
	var total time.Duration
	for _, costs := range r.Costs {
		for _, c := range costs {
			total += c.CPU()
		}
	}
	return total.Seconds() * 1e6 / float64(max(1, r.Load.Requests))
}

// SwitchesPerRequest returns context switches of the servers' processes for a
// request.
func (r *Record) SwitchesPerRequest() (voluntary, involuntary float64) {
	n := float64(max(1, r.Load.Requests))
	for _, costs := range r.Costs {
		for _, c := range costs {
			voluntary += float64(c.Voluntary) / n
			involuntary += float64(c.Involuntary) / n
		}
	}
	return voluntary, involuntary
}

// RSS returns the resident memory of the servers' processes, in bytes.
func (r *Record) RSS() (bytes int64) {
	for _, costs := range r.Costs {
		for _, c := range costs {
			bytes += c.RSS
		}
	}
	return bytes
}

// OtherAccepts returns how many TCP connections the machine accepted that were not
// the generator's: those of a front to its application, and anybody else's.
func (r *Record) OtherAccepts() uint64 {
	return r.MachineAccepted - min(r.MachineAccepted, r.Load.Connects)
}

// Roles returns the roles in the order in which a request meets them.
func Roles() []string {
	return []string{contender.RoleNginx, contender.RoleFront, contender.RoleApplication}
}
