// Package trial runs contenders under load, in the order that makes them
// comparable, and records what each trial showed.
//
// A trial is one contender under one load once, as fresh processes. A block is one
// trial of each, in random order; whatever drifts on the machine drifts for all of
// a block. Every trial is written to the journal as soon as it is over.
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

	// Others is the processor time that neither the servers nor the generator
	// account for: other programs, and the kernel's own work.
	Others time.Duration `json:"othersNs"`

	// MachineAccepted is how many TCP connections were accepted while measuring, by
	// any program on the machine: the kernel does not tell whose they are.
	MachineAccepted uint64 `json:"machineAccepted"`

	// Unsettled is for how long after measuring began the rate was on another level than
	// later; 0 if it was not, or never settled.
	Unsettled time.Duration `json:"unsettledNs,omitempty"`

	// Failure says what went wrong; then there is nothing else.
	Failure string `json:"failure,omitempty"`
}

// CPUPerRequest returns the processor time that the servers' processes of a role
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

// WeightUs returns the processor time of all the servers' processes for a request,
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
