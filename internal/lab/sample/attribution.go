package sample

import "github.com/tarehq/tare/internal/lab/proc"

// Attribution holds what the kernel counted in a trial of its own. Counting costs time, so the
// times of such a record are meaningless and its numbers alone are used.
type Attribution struct {
	// Calls are system calls by role and name; nil if they were not counted. RoleGenerator is
	// this whole process.
	Calls map[string]map[string]uint64 `json:"calls,omitempty"`

	// Hops are the connections between processes, in the order in which a request passes them.
	Hops []Hop `json:"hops,omitempty"`

	// Collector holds the rates of a Go application's garbage collector; nil for other
	// applications.
	Collector *Collector `json:"collector,omitempty"`

	// Missing lists what could not be counted, and why.
	Missing []string `json:"missing,omitempty"`
}

// RoleGenerator is the role of the load generator, which does not belong to a contender.
const RoleGenerator = "generator"

// Names of hops.
const (
	HopClient      = "client"      // to the front, or to the application if there is none
	HopApplication = "application" // from the front to the application
)

// Hop is the traffic between two processes.
type Hop struct {
	Name    string `json:"name"`
	Network string `json:"network"` // "tcp" or "unix"; for unix, Opened counts calls of connect
	proc.Traffic
}

// Hop returns the hop with a name; nil if its traffic was not counted.
func (a *Attribution) Hop(name string) *Hop {
	for i := range a.Hops {
		if a.Hops[i].Name == name {
			return &a.Hops[i]
		}
	}
	return nil
}

// Collector holds rates of a Go program's garbage collector in the measured time, from its trace.
type Collector struct {
	BytesPerSecond  float64 `json:"bytesPerSecond"`  // allocated; the trace has whole MB
	CPUPerSecond    float64 `json:"cpuPerSecond"`    // CPU seconds per second
	CyclesPerSecond float64 `json:"cyclesPerSecond"` // runs per second
}
