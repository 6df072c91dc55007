package core

import (
	"bytes"
	"io"
	"log"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/internal/errorlog"
)

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
