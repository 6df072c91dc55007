package core

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"time"
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
}

// Logger returns the logger for errors that concern no request.
func (o *Options) Logger() *log.Logger {
	if o.ErrorLog == nil {
		return log.Default()
	}
	return o.ErrorLog
}

// Span is a front.Span: its fields are described there.
type Span struct {
	TraceID, SpanID, ParentID, State, Name string
	Start, End                             time.Time
	Attributes                             []slog.Attr
}
