package agent

import (
	"time"

	"github.com/tarehq/tare/load"
)

// Version is the version of the protocol. Other versions are rejected.
const Version = 2

// Command is a message of the controller. Only one field is set.
type Command struct {
	Hello *Greeting `json:"hello,omitempty"`
	// Ping requests a Pong with the same number.
	Ping *uint64 `json:"ping,omitempty"`
	Plan *Plan   `json:"plan,omitempty"`
	// Start starts the run.
	Start *Start `json:"start,omitempty"`
	// Stop ends the run. The result covers the time until then.
	Stop bool `json:"stop,omitempty"`
	// Session is about a load.Session. Its records have the same ID.
	Session *SessionCommand `json:"session,omitempty"`
}

// SessionCommand opens, loads or closes a load.Session; only one field besides ID is set. The next
// command for a session must wait for the record of the one before.
type SessionCommand struct {
	ID    int    `json:"id"`
	Plan  *Plan  `json:"plan,omitempty"` // opens the session
	Slice *Slice `json:"slice,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// Slice requests a slice of a session; see load.Session.Slice.
type Slice struct {
	For    time.Duration `json:"forNs"`
	Counts bool          `json:"counts"`
}

// SessionRecord reports that a session is open, or what a slice measured. In a record with a Result
// or an Error it names the session that has ended.
type SessionRecord struct {
	ID     int         `json:"id"`
	IsOpen bool        `json:"open,omitempty"`
	Slice  *load.Slice `json:"slice,omitempty"`
}

// Greeting begins a connection of a controller. A person may leave it out.
type Greeting struct {
	Version int `json:"version"`
	// Silence is how long the agent waits for a message before it ends: the controller or the
	// network may be gone. 0 means forever.
	Silence time.Duration `json:"silenceNs,omitempty"`
}

// Start is when to begin.
type Start struct {
	// At is the time on the agent's clock; 0 means at once.
	At time.Duration `json:"atNs,omitempty"`
}

// Record is a message of the agent. Only one field is set, except as stated.
type Record struct {
	Hello *About `json:"hello,omitempty"`
	Pong  *Pong  `json:"pong,omitempty"`
	// Ready reports that all connections were opened or failed, and the agent waits for the start.
	Ready *Moment `json:"ready,omitempty"`
	// Began reports that measuring has begun.
	Began  *Moment      `json:"began,omitempty"`
	Second *load.Second `json:"second,omitempty"`
	// CPU is the CPU time of the agent's process in about the same second, or in the slice.
	CPU     float64      `json:"cpuSeconds,omitempty"`
	Samples [][12]int64  `json:"samples,omitempty"` // see AppendSample
	Result  *load.Result `json:"result,omitempty"`
	// Error ends a run or a session. With a Result, the run ended early.
	Error   *Error         `json:"error,omitempty"`
	Session *SessionRecord `json:"session,omitempty"`
}

// About describes the agent's process and machine.
type About struct {
	Version int           `json:"version"`
	Tool    string        `json:"tool"`
	OS      string        `json:"os"`
	Arch    string        `json:"arch"`
	CPUs    int           `json:"cpus"`
	Clock   time.Duration `json:"clockNs"`
	// Caller is the address of the controller's machine, if sshd reports it; otherwise empty.
	Caller string `json:"caller,omitempty"`
}

// Pong is the response to a ping.
type Pong struct {
	Ping  uint64        `json:"ping"`
	Clock time.Duration `json:"clockNs"` // when the ping was read
}

// Moment is when something happened.
type Moment struct {
	Clock time.Duration `json:"clockNs"`
}

// Error is why a run ended.
type Error struct {
	Kind ErrorKind `json:"kind"`
	Text string    `json:"text"`
}

// ErrorKind classifies an Error.
type ErrorKind string

const (
	BadPlan      ErrorKind = "plan"        // the plan is invalid
	NoConnection ErrorKind = "connect"     // no connection could be opened
	Interrupted  ErrorKind = "interrupted" // a signal ended the agent
	Failed       ErrorKind = "failed"      // anything else
)

// AppendSample returns the numbers of a sample: the times since measuring began, in nanoseconds, in
// the order connect, due, sent, first, done; then connection, request, status, kept (0 or 1),
// failure, bytes of the body and of the response.
func AppendSample(all [][12]int64, s *load.Sample) [][12]int64 {
	kept := int64(0)
	if s.Kept {
		kept = 1
	}
	return append(all, [12]int64{
		int64(s.Connect), int64(s.Due), int64(s.Sent), int64(s.First), int64(s.Done), int64(s.Connection),
		int64(s.Request), int64(s.Status), kept, int64(s.Failure), s.Body, s.Bytes,
	})
}

// ReadSample returns a sample from its numbers.
func ReadSample(n *[12]int64) load.Sample {
	return load.Sample{
		Connect: time.Duration(n[0]), Due: time.Duration(n[1]), Sent: time.Duration(n[2]),
		First: time.Duration(n[3]), Done: time.Duration(n[4]), Connection: int32(n[5]), Request: int32(n[6]),
		Status: int32(n[7]), Kept: n[8] == 1, Failure: load.Failure(n[9]), Body: n[10], Bytes: n[11],
	}
}
