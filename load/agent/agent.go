package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/load"
)

// Options configures Serve. The zero value works.
type Options struct {
	Tool   string // the program's name and version, for the controller
	Caller string // see About.Caller
	// Silence is how long to wait for a message of the controller until its greeting sets another
	// limit; 0 means forever.
	Silence time.Duration
	// Epoch is the zero of the agent's clock; when Serve was called if it is zero.
	Epoch time.Time
}

var errEnded = errors.New("agent: the input has ended")

// Serve executes the commands of the input until it ends, ctx ends or the controller is silent for
// too long. A run in progress ends early then; its result is still written. Serve reports an
// invalid plan to the controller and does not return it. Serve may leave a goroutine that reads the
// input.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.Epoch.IsZero() {
		o.Epoch = time.Now()
	}
	s := &server{options: o, commands: make(chan Command), out: newOutput(out, cancel),
		sessions: make(map[int]*session)}
	go s.read(ctx, in)
	err := s.loop(ctx)
	cancel(errEnded)
	for _, one := range s.sessions { // their context has ended
		<-one.done
	}
	if writeErr := s.out.close(); err == nil {
		err = writeErr
	}
	return err
}

// server is an agent's state. Its goroutines are the loop, the reader of commands, the writer of
// records, and at most one run.
type server struct {
	options  Options
	commands chan Command
	inputErr error // set before commands is closed
	out      *output

	lastInput atomic.Int64 // when input arrived last, on the agent's clock

	// Only the loop uses these.
	run      *run             // the last one; nil before the first
	sessions map[int]*session // by ID, also those that have ended
	silence  time.Duration
}

// timedReader records when input arrives. A long plan takes long to arrive.
type timedReader struct {
	from   io.Reader
	server *server
}

func (r timedReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.server.lastInput.Store(int64(r.server.now()))
	return n, err
}

func (s *server) now() time.Duration { return time.Since(s.options.Epoch) }

// read passes commands to the loop. It replies to pings itself, so that nothing delays a reply.
func (s *server) read(ctx context.Context, in io.Reader) {
	defer close(s.commands)
	d := json.NewDecoder(timedReader{in, s})
	d.DisallowUnknownFields() // a person's typing error would change the plan
	for {
		var c Command
		err := d.Decode(&c)
		at := s.now()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.inputErr = fmt.Errorf("agent: invalid command: %w", err)
			}
			return
		}
		if c.Ping != nil {
			s.out.send(Record{Pong: &Pong{*c.Ping, at}})
		}
		select {
		case s.commands <- c:
		case <-ctx.Done():
			return
		}
	}
}

const forever = time.Duration(1) << 62 // longer than any silence

// loop executes commands until the end of the input or of ctx.
func (s *server) loop(ctx context.Context) error {
	defer s.endRun()
	silence := time.NewTimer(forever)
	defer silence.Stop()
	if s.silence = s.options.Silence; s.silence > 0 {
		silence.Reset(s.silence)
	}
	for {
		select {
		case c, ok := <-s.commands:
			if !ok {
				return s.inputErr
			}
			if err := s.execute(ctx, c); err != nil {
				return err
			}
			if c.Hello != nil {
				silence.Reset(cmp.Or(s.silence, forever))
			}
		case <-silence.C:
			if left := time.Duration(s.lastInput.Load()) + s.silence - s.now(); left > 0 {
				silence.Reset(left)
				continue
			}
			return fmt.Errorf("agent: no message for %v: the controller or the network is gone", s.silence)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *server) isRunning() bool { return s.run != nil && !s.run.ended.Load() }

// endRun ends the run, if there is one, and waits until its result is queued.
func (s *server) endRun() {
	if s.run != nil {
		s.run.stop()
		<-s.run.done
	}
}

// execute carries out a command of the controller. An error ends the agent.
func (s *server) execute(ctx context.Context, c Command) error {
	switch {
	case c.Hello != nil:
		s.silence = max(c.Hello.Silence, 0)
		s.out.send(Record{Hello: &About{Version: Version, Tool: s.options.Tool, OS: runtime.GOOS,
			Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Clock: s.now(), Caller: s.options.Caller}})
		if c.Hello.Version != Version {
			return fmt.Errorf("agent: protocol version %d: want %d (use the same tare on all machines)",
				c.Hello.Version, Version)
		}
	case c.Plan != nil:
		if s.isRunning() {
			return errors.New("agent: received a plan while another one runs (wait for its result)")
		}
		s.endRun()
		s.begin(ctx, c.Plan)
	case c.Start != nil:
		if !s.isRunning() {
			return errors.New("agent: received a start without a plan (send a plan first)")
		}
		select {
		case s.run.start <- *c.Start:
		default:
			return errors.New("agent: received a second start of the same plan")
		}
	case c.Stop && s.run != nil:
		s.run.stop()
	case c.Session != nil:
		return s.direct(ctx, c.Session)
	}
	return nil
}

func (s *server) begin(ctx context.Context, p *Plan) {
	plan, err := p.Load()
	if err != nil {
		s.out.send(Record{Error: describe(err)})
		return
	}
	ctx, stop := context.WithCancel(ctx)
	s.run = &run{server: s, plan: plan, start: make(chan Start, 1), stop: stop,
		done: make(chan struct{})}
	go s.run.execute(ctx)
}

func describe(err error) *Error {
	kind := Failed
	if _, ok := errors.AsType[*load.PlanError](err); ok {
		kind = BadPlan
	} else if _, ok := errors.AsType[*load.ConnectError](err); ok {
		kind = NoConnection
	} else if errors.Is(err, context.Canceled) {
		kind = Interrupted
	}
	return &Error{kind, err.Error()}
}
