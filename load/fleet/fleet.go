package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/load/agent"
)

// Options configures a Fleet. The zero value works.
type Options struct {
	// OnLoss decides what happens if an agent is lost.
	OnLoss OnLoss
	// Silence is how long an agent may report nothing until it is lost, and how long an agent waits
	// for the controller; DefaultSilence if 0.
	Silence time.Duration
	// TLS describes the TLS of plans, in place of Plan.TLS.
	TLS *agent.TLS
	// Note receives a sentence about each loss when it happens. It may be nil.
	Note func(string)
}

// DefaultSilence is the default of Options.Silence.
const DefaultSilence = 10 * time.Second

// OnLoss is what happens to a run if an agent is lost.
type OnLoss uint8

const (
	End      OnLoss = iota // the run ends; the figures cover the time until then
	Continue               // the run goes on with the other agents
)

// Fleet is a set of agents. Only one goroutine may call its methods at a time.
type Fleet struct {
	options Options
	zero    time.Time
	links   []*link
	events  chan event
	done    chan struct{}
	running sync.WaitGroup // the links' goroutines

	sessions int // opened so far
}

// Error is the error of agents that were lost or cannot be used.
type Error struct {
	Reasons []string
	causes  []error
}

func (e *Error) Error() string { return "fleet: " + strings.Join(e.Reasons, "; ") }

// Unwrap returns the errors behind the reasons, as far as there are any.
func (e *Error) Unwrap() []error { return e.causes }

// openTimeout limits how long the agents may take to start, with the copies of their program.
const openTimeout = 5 * time.Minute

// Open starts an agent on each host. If one cannot be started, none stays.
func Open(ctx context.Context, hosts []Host, o Options) (*Fleet, error) {
	if len(hosts) == 0 {
		return nil, errors.New("fleet: no hosts")
	}
	o.Silence = cmp.Or(o.Silence, DefaultSilence)
	if o.Note == nil {
		o.Note = func(string) {}
	}
	f := &Fleet{options: o, zero: time.Now(), events: make(chan event), done: make(chan struct{})}
	for i, name := range uniqueNames(hosts) {
		c := &clock{pong: make(chan struct{}, 1)}
		f.links = append(f.links, &link{host: &hosts[i], name: name, zero: f.zero, clock: c})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, fmt.Errorf("no agent within %v", openTimeout))
	defer cancel()
	errs := f.openAll(ctx)
	failed := new(Error)
	for _, l := range f.links {
		if err := errs[l]; err != nil {
			failed.Reasons = append(failed.Reasons, l.name+": "+err.Error())
			failed.causes = append(failed.causes, err)
			l.isLost = true
			continue
		}
		f.running.Go(func() { l.read(f.events, f.done) })
		f.running.Go(func() { l.keepPinging(f.done) })
	}
	if failed.Reasons != nil {
		f.Close()
		return nil, failed
	}
	return f, nil
}

const noteEvery = 5 * time.Second // interval of reports of hosts that have not responded

// openAll starts the agents concurrently and returns the errors, nil for an agent that has started.
// It reports the hosts whose agents have not started, when they change.
func (f *Fleet) openAll(ctx context.Context) map[*link]error {
	type outcome struct {
		link *link
		err  error
	}
	outcomes := make(chan outcome)
	for _, l := range f.links {
		go func() { outcomes <- outcome{l, l.open(ctx, f.options.Silence)} }()
	}
	ticks := time.NewTicker(noteEvery)
	defer ticks.Stop()
	errs := make(map[*link]error)
	for last := ""; len(errs) < len(f.links); {
		select {
		case o := <-outcomes:
			errs[o.link] = o.err
		case <-ticks.C:
			var waiting []string
			for _, l := range f.links {
				if _, ended := errs[l]; !ended {
					waiting = append(waiting, l.name)
				}
			}
			if names := strings.Join(waiting, ", "); names != last {
				f.options.Note("waiting for " + names)
				last = names
			}
		}
	}
	return errs
}

// open starts the agent, and installs it first if the host lacks it.
func (l *link) open(ctx context.Context, silence time.Duration) error {
	for installed := false; ; installed = true {
		if err := l.start(ctx); err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, l.kill)
		lacks, err := l.greet(silence)
		if err == nil && lacks != "" { // the command ends, or ctx ends it
			_ = l.in.Close()
			_ = l.end(io.EOF)
		}
		stop()
		switch ended := context.Cause(ctx); {
		case lacks != "" && ended != nil:
			return ended
		case cmp.Or(err, ended) != nil:
			err = l.end(cmp.Or(err, ended))
			return cmp.Or(context.Cause(ctx), err)
		case lacks == "":
			return nil
		case installed:
			return errors.New("the program was copied there, but cannot be executed (if its cache folder is mounted noexec, set XDG_CACHE_HOME there)")
		case l.host.Install == nil:
			return errors.New("its agent is missing (install tare there)")
		}
		if err := l.host.Install(ctx, lacks); err != nil {
			return err
		}
	}
}

// Close ends the agents and waits for their commands.
func (f *Fleet) Close() {
	close(f.done)
	for _, l := range f.alive() {
		f.running.Go(l.close)
	}
	f.running.Wait()
}

// About returns what the agents reported about themselves.
func (f *Fleet) About() (all []agent.About) {
	for _, l := range f.alive() {
		all = append(all, l.about)
	}
	return all
}

func (f *Fleet) alive() (all []*link) {
	for _, l := range f.links {
		if !l.isLost {
			all = append(all, l)
		}
	}
	return all
}

func (f *Fleet) lose(l *link, why string) {
	l.isLost = true
	l.kill()
	f.options.Note(fmt.Sprintf("the generator on %s was lost: %s", l.name, why))
}
