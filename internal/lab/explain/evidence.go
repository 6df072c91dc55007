package explain

import (
	"math"
	"slices"
)

// Evidence is what is known of one contender under one condition. Each figure is the median of its
// trials, and counts are per request unless noted. A figure that was not counted is 0 for all
// contenders, so that no rule fires on it.
type Evidence struct {
	Title string

	Protocol    string // of the application: HTTP or FastCGI
	Interpreter string // Python or Ruby if it runs the application, one thread at a time; otherwise ""
	Cores       int    // that the servers may use
	Parts       []Part // in the order in which a request passes them: the front, the application

	PerSecond    float64 // requests
	MeanUs       float64 // latency
	DelayedShare float64 // responses that took as long as a delayed acknowledgment
	Connects     float64 // opened by clients

	// Demand is the mean number of server threads that were running or ready to run. Unlike CPU
	// time, it does not depend on what other programs used.
	Demand float64

	// BackendConnects is the number of connections that the front opened to the application.
	BackendConnects float64
}

// Part is all processes of one role.
type Part struct {
	Role   string // "application", or the front's name
	UserUs float64
	SysUs  float64

	Voluntary   float64            // context switches to wait
	Involuntary float64            // context switches forced by the scheduler
	PageFaults  float64            // without those for pages by which it grew
	FileBytes   float64            // written to files
	Calls       map[string]float64 // system calls by name; nil if not counted
	AllocBytes  float64            // allocated by a Go program
	GCShare     float64            // garbage collector's share of a Go program's CPU time, 0 to 1
}

// Us returns the CPU time of a part.
func (p Part) Us() float64 { return p.UserUs + p.SysUs }

// application is the role that produces the response. Any other role is a front.
const application = "application"

// front returns the part before the application, or nil.
func (e *Evidence) front() *Part {
	if e.app().Us() == 0 { // a web server alone is not a front
		return nil
	}
	i := slices.IndexFunc(e.Parts, func(p Part) bool { return p.Role != application })
	if i < 0 {
		return nil
	}
	return &e.Parts[i]
}

// app returns the application's part, or a zero Part.
func (e *Evidence) app() Part { return e.part(application) }

func (e *Evidence) part(role string) Part {
	i := slices.IndexFunc(e.Parts, func(p Part) bool { return p.Role == role })
	if i < 0 {
		return Part{}
	}
	return e.Parts[i]
}

// sum adds up a figure of all parts.
func (e *Evidence) sum(of func(*Part) float64) (total float64) {
	for i := range e.Parts {
		total += of(&e.Parts[i])
	}
	return total
}

// WeightUs returns the CPU time of all parts.
func (e *Evidence) WeightUs() float64 { return e.sum(func(p *Part) float64 { return p.Us() }) }

// used returns how many processors the servers kept busy.
func (e *Evidence) used() float64 { return e.WeightUs() * e.PerSecond / 1e6 }

// calls adds up the system calls of these names in all parts.
func (e *Evidence) calls(names []string) float64 {
	return e.sum(func(p *Part) float64 { return p.calls(names) })
}

func (p Part) calls(names []string) (n float64) {
	for _, name := range names {
		n += p.Calls[name]
	}
	return n
}

// counted reports whether system calls were counted.
func (e *Evidence) counted() bool {
	return slices.ContainsFunc(e.Parts, func(p Part) bool { return p.Calls != nil })
}

// writeCalls returns the system calls that send data.
func writeCalls() []string { return []string{"write", "writev", "sendto", "sendmsg", "sendfile"} }

// fileCalls returns the system calls that write to files.
func fileCalls() []string { return []string{"pwrite64", "pwritev", "pwritev2"} }

// more returns by how much the contender's figure exceeds the control's.
func (c *Case) more(of func(*Evidence) float64) float64 { return of(&c.Of) - of(&c.Control) }

// extraUs returns by how much the contender's weight exceeds the control's.
func (c *Case) extraUs() float64 { return c.more((*Evidence).WeightUs) }

// share returns the share of the difference in weight that us makes up.
func (c *Case) share(us float64) float64 {
	extra := c.extraUs()
	if extra <= 0 {
		return 0
	}
	return clamp(us / extra)
}

// rateShare returns the share of the difference in rate that a factor explains. It compares
// logarithms, because factors multiply.
func (c *Case) rateShare(factor float64) float64 {
	if c.Of.PerSecond <= 0 || c.Control.PerSecond <= c.Of.PerSecond {
		return 0
	}
	return clamp(math.Log(factor) / math.Log(c.Control.PerSecond/c.Of.PerSecond))
}

// extra returns a finding of CPU time that the contender uses more.
func (c *Case) extra(us float64, sentence string, counter Counter) Finding {
	return Finding{Sentence: sentence + c.shareClause(us), Explains: Weight, Share: c.share(us), Counter: counter}
}

func clamp(share float64) float64 {
	if math.IsNaN(share) {
		return 0
	}
	return min(1, max(0, share))
}
