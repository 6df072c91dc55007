package core

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/exposition"
	"github.com/tarehq/tare/front/internal/listenaddr"
)

// Plan is a compiled Config. It never changes, except for the number of its users.
type Plan struct {
	Handler http.Handler // whose plan it is
	modules []Module
	Options *Options
	State   *State
	Hosts   listenaddr.Table[hostGroup]
	slots   int    // number of variables with slots
	product string // the name and version in error pages
	Needs   needs  // what exchanges collect
	errors  *errorlog.Log

	Parts []any // what modules keep of the Config

	Measures []func(*exposition.Page) // add metrics to a page

	Users    atomic.Int64 // exchanges, and 1 until the plan is retired
	release  sync.Once
	Releases []func() // release what the plan has acquired from the state; the last one is the first
	Prepares []func() // apply the plan to shared state, before it is in use
	Commits  []func() // likewise, once it is in use
	Retires  []func() // end what only the plan in use does
	// Expired is done when another plan has been in use for ShutdownTimeout, or after Abort. It ends
	// what exchanges of this plan have begun.
	Expired         context.Context
	Expire          context.CancelFunc
	ShutdownTimeout time.Duration
}

// Prepare applies the plan to the state that it shares, as far as its first request depends on
// that.
func (p *Plan) Prepare() { callAll(p.Prepares) }

// Commit applies the rest of the plan to the state that it shares.
func (p *Plan) Commit() { callAll(p.Commits) }

// Retire releases the plan after its last exchange.
func (p *Plan) Retire() {
	callAll(p.Retires)
	p.Leave()
}

// Leave ends a use of the plan.
func (p *Plan) Leave() {
	if p.Users.Add(-1) == 0 {
		p.release.Do(func() {
			for _, release := range slices.Backward(p.Releases) {
				release()
			}
			p.State.Plans.Done()
		})
	}
}

func callAll(functions []func()) {
	for _, f := range functions {
		f()
	}
}

// PlanPart returns what a module keeps of the Config, or the zero value.
func PlanPart[T any](p *Plan) (part T) {
	for _, any := range p.Parts {
		if found, ok := any.(T); ok {
			return found
		}
	}
	return part
}

// Options are what is not plain data: see front.Option.
type Options struct {
	Bound      map[string]http.Handler
	Handler    http.Handler // the content of all locations; nil if they have their own
	ErrorLog   *log.Logger
	OpenLog    func(path string) (io.WriteCloser, error)
	InMemory   bool
	CountConns func() (accepted, open, reading int64)
	Explain    *Explanation // nil serves
	ExportSpan func(Span)

	configLog atomic.Pointer[errorlog.Log] // the ErrorLog of the Config in use; nil if it has none
}

// Logger returns the logger for errors that concern no request. It writes to the ErrorLog of the
// Config that is in use at the time.
func (o *Options) Logger() *log.Logger { return log.New(configLog{o}, "", 0) }

// programLog is the log of a Config without an ErrorLog.
func (o *Options) programLog() *errorlog.Log {
	to := &errorlog.Log{MinLevel: errorlog.LevelError, Logger: o.ErrorLog}
	if to.Logger == nil {
		to.Logger = log.Default()
	}
	return to
}

// LeaveConfig makes later errors that concern no request those of the program.
func (o *Options) LeaveConfig() { o.configLog.Store(nil) }

type configLog struct{ options *Options }

func (l configLog) Write(line []byte) (int, error) {
	if to := l.options.configLog.Load(); to != nil {
		to.Write(errorlog.LevelError, 0, bytes.TrimRight(line, "\n"))
	} else {
		l.options.programLog().Logger.Print(string(line))
	}
	return len(line), nil
}

// Span is a front.Span: its fields are described there.
type Span struct {
	TraceID, SpanID, ParentID, State, Name string
	Start, End                             time.Time
	Attributes                             []slog.Attr
}
