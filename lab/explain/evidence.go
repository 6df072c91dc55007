package explain

import (
	"math"
	"slices"
)

// Evidence is what is known of one contender under one condition: of each figure the median
// of its trials. Counts are per request unless they say otherwise. What was not counted is 0
// for all contenders alike, and no rule fires on it.
type Evidence struct {
	Title string

	Protocol    string // that the application speaks: HTTP or FastCGI
	Interpreter string // that runs the application, one thread at a time: Python or Ruby; "" if none is known
	Cores       int    // processors that the servers may use
	Connections int    // of clients
	Parts       []Part // in the order in which a request meets them: a front, the application

	PerSecond    float64 // requests
	MeanUs       float64 // latency
	P50Us        float64
	DelayedShare float64 // share of responses that took as long as a delayed acknowledgement
	Connects     float64 // clients' connections opened
	RetriedShare float64 // share of clients' connections that took as long as a second SYN
	Bytes        float64 // of a response to a lone request
	Errors       float64
	ErrorTexts   []string
	Statuses     map[int]float64 // of responses

	// Demand is how many processors the servers' threads were running on or ready for, on
	// average: unlike what they got, it does not depend on who else had them.
	Demand float64

	// BackendConnects are connections that the front opened to the application.
	BackendConnects float64

	GeneratorBusy float64 // of the generator's busiest thread, as a share of a CPU
	OthersCPUs    float64 // processors that programs used which are not measured
}

// What applications speak.
const (
	HTTP    = "http"
	FastCGI = "fastcgi"
)

// Part is a role's share of a contender: all of its processes together.
type Part struct {
	Role   string // "application", or the front's name
	UserUs float64
	SysUs  float64

	Voluntary   float64 // context switches because it had to wait
	Involuntary float64 // because it was another's turn
	Processes   int
	Threads     int // of all processes; 0 if not counted
	RSS         float64
	PageFaults  float64            // but for those of pages by which it grew
	FileBytes   float64            // written to files
	Calls       map[string]float64 // system calls by name; nil if not counted
	AllocBytes  float64            // that a Go program allocated
	GCShare     float64            // of a Go program's CPU time, 0 to 1
}

// Us is a part's CPU time.
func (p Part) Us() float64 { return p.UserUs + p.SysUs }

// application is the role of what answers in the end; any other is a front.
const application = "application"

// front returns the part before the application; nil without one.
func (e *Evidence) front() *Part {
	if e.app().Us() == 0 { // with nothing behind it, it is what serves
		return nil
	}
	i := slices.IndexFunc(e.Parts, func(p Part) bool { return p.Role != application })
	if i < 0 {
		return nil
	}
	return &e.Parts[i]
}

// app returns the application's part; zero if there is nothing of it.
func (e *Evidence) app() Part { return e.part(application) }

func (e *Evidence) part(role string) Part {
	i := slices.IndexFunc(e.Parts, func(p Part) bool { return p.Role == role })
	if i < 0 {
		return Part{}
	}
	return e.Parts[i]
}

// sum adds a figure of all parts.
func (e *Evidence) sum(of func(*Part) float64) (total float64) {
	for i := range e.Parts {
		total += of(&e.Parts[i])
	}
	return total
}

// WeightUs is the CPU time of all parts.
func (e *Evidence) WeightUs() float64 { return e.sum(func(p *Part) float64 { return p.Us() }) }

// used is how many processors the servers kept busy.
func (e *Evidence) used() float64 { return e.WeightUs() * e.PerSecond / 1e6 }

// calls adds system calls of the names in all parts.
func (e *Evidence) calls(names []string) float64 {
	return e.sum(func(p *Part) float64 { return p.calls(names) })
}

func (p Part) calls(names []string) (n float64) {
	for _, name := range names {
		n += p.Calls[name]
	}
	return n
}

// counted reports whether system calls are known.
func (e *Evidence) counted() bool {
	return slices.ContainsFunc(e.Parts, func(p Part) bool { return p.Calls != nil })
}

// System calls by what they do. A constant table cannot be a slice.
func writeCalls() []string { return []string{"write", "writev", "sendto", "sendmsg", "sendfile"} }
func readCalls() []string  { return []string{"read", "readv", "recvfrom", "recvmsg"} }
func fileCalls() []string  { return []string{"pwrite64", "pwritev", "pwritev2"} }

// more is by how much the contender's figure is above the control's.
func (c *Case) more(of func(*Evidence) float64) float64 { return of(&c.Of) - of(&c.Control) }

// extraUs is by how much the contender is heavier.
func (c *Case) extraUs() float64 { return c.more((*Evidence).WeightUs) }

// share is which part of the difference in weight the microseconds are.
func (c *Case) share(us float64) float64 {
	extra := c.extraUs()
	if extra <= 0 {
		return 0
	}
	return clamp(us / extra)
}

// rateShare is which part of the difference in rate a factor accounts for. Factors are
// compared as logarithms, because they multiply.
func (c *Case) rateShare(factor float64) float64 {
	if c.Of.PerSecond <= 0 || c.Control.PerSecond <= c.Of.PerSecond {
		return 0
	}
	return clamp(math.Log(factor) / math.Log(c.Control.PerSecond/c.Of.PerSecond))
}

func clamp(share float64) float64 {
	if math.IsNaN(share) {
		return 0
	}
	return min(1, max(0, share))
}
