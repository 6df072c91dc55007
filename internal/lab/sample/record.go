package sample

import (
	"maps"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/load"
)

// Record is the result of one contender in a block or in a trial.
type Record struct {
	Block int `json:"block"` // from 1
	Condition
	Contender string    `json:"contender"`
	Start     time.Time `json:"start"`

	Load  *load.Result           `json:"load,omitempty"`
	Costs map[string][]proc.Cost `json:"costs,omitempty"` // of the servers' processes, by role

	Idle *Idle `json:"idle,omitempty"` // memory with idle connections; nil under load

	// Attribution holds the kernel's counts; nil in a timed trial.
	Attribution *Attribution `json:"attribution,omitempty"`

	// Others is the CPU time of other programs and of the kernel's own work.
	Others time.Duration `json:"othersNs"`

	// Slices are the turns of the contender in a block; none if it was measured alone.
	Slices []Slice `json:"slices,omitempty"`
	Asleep Asleep  `json:"asleep,omitzero"` // its cost while the others had their turns
	// Alone is the reason why a block measured this contender alone; "" if it did not.
	Alone string `json:"alone,omitempty"`

	// Values are the figures of a Go benchmark, by unit; nil of servers under load.
	Values map[string]float64 `json:"values,omitempty"`

	// Failure describes what failed. Then the record has no results.
	Failure string `json:"failure,omitempty"`
}

// Slice is one turn of a contender in a block.
type Slice struct {
	Round    int                      `json:"round"` // from 1; each has one slice of every contender
	Elapsed  time.Duration            `json:"elapsedNs"`
	Requests uint64                   `json:"requests"`
	CPU      map[string]time.Duration `json:"cpuNs"`    // of the servers' processes, by role
	Others   time.Duration            `json:"othersNs"` // the slice's share of the round's; may be slightly negative

	// Probe is the mean time of the probe's work on the servers' processors during the slice. It is
	// 0 if unknown: there is no probe if servers and generator share all processors.
	Probe time.Duration `json:"probeNs,omitempty"`
}

// Asleep is the cost of a contender that receives no request.
type Asleep struct {
	For time.Duration `json:"forNs"`
	CPU time.Duration `json:"cpuNs"`
}

// Share returns the share of one CPU that the contender uses.
func (a Asleep) Share() float64 { return a.CPU.Seconds() / max(a.For.Seconds(), 1e-9) }

// Parts returns the record's slices. A record without slices is one part.
func (r *Record) Parts() []Slice {
	if len(r.Slices) > 0 {
		return r.Slices
	}
	whole := Slice{
		Elapsed:  time.Duration(r.Load.Seconds * float64(time.Second)),
		Requests: r.Load.Requests, CPU: make(map[string]time.Duration), Others: r.Others,
	}
	for role := range r.Costs {
		whole.CPU[role] = time.Duration(r.Sum(role, cpu))
	}
	return []Slice{whole}
}

// WeightUs returns the CPU time per request of a role's processes, in microseconds; "" is all
// roles.
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
func (s *Slice) PerSecond() float64 { return float64(s.Requests) / max(s.Elapsed.Seconds(), 1e-9) }

// Timed reports whether the trial succeeded and its times are valid: it counted nothing.
func (r *Record) Timed() bool {
	return r.Failure == "" && (r.Load != nil || r.Values != nil) && r.Attribution == nil
}

// Sum adds up a figure of all processes of a role; "" is all the servers'. Figures are whole
// numbers, so that their order does not matter.
func (r *Record) Sum(role string, figure func(proc.Cost) float64) (sum float64) {
	costs := r.Costs[role]
	if role == "" {
		costs = slices.Concat(slices.Collect(maps.Values(r.Costs))...)
	}
	for _, c := range costs {
		sum += figure(c)
	}
	return sum
}

// PerRequest divides a Sum by the number of requests.
func (r *Record) PerRequest(role string, figure func(proc.Cost) float64) float64 {
	return r.Sum(role, figure) / float64(max(1, r.Load.Requests))
}

func cpu(c proc.Cost) float64 { return float64(c.CPU()) }

// Voluntary is a figure: context switches because a thread waited.
func Voluntary(c proc.Cost) float64 { return float64(c.Voluntary) }

// Involuntary is a figure: context switches because another thread had its turn.
func Involuntary(c proc.Cost) float64 { return float64(c.Involuntary) }

// RSS is a figure: resident memory in bytes.
func RSS(c proc.Cost) float64 { return float64(c.RSS) }

// UserUs returns the user time of a role's processes per request, in microseconds.
func (r *Record) UserUs(role string) float64 {
	return r.PerRequest(role, func(c proc.Cost) float64 { return float64(c.User) }) / 1e3
}

// SysUs returns the system time, as UserUs.
func (r *Record) SysUs(role string) float64 {
	return r.PerRequest(role, func(c proc.Cost) float64 { return float64(c.Sys) }) / 1e3
}

// WeightUs returns the CPU time of all the servers' processes per request, in microseconds.
func (r *Record) WeightUs() float64 { return r.PerRequest("", cpu) / 1e3 }

// Roles returns the roles of servers in the order in which a request passes them.
func Roles() []string {
	return []string{contender.RoleNginx, contender.RoleFront, contender.RoleApplication}
}

// Attribution holds what the kernel counted in a trial of its own. Counting costs time, so the
// times of such a record are meaningless and its numbers alone are used.
type Attribution struct {
	// Calls are system calls by role and name; nil if they were not counted.
	Calls map[string]map[string]uint64 `json:"calls,omitempty"`

	Missing []string `json:"missing,omitempty"` // what could not be counted, and why
}
