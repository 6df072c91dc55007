package front

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"time"
)

type options struct {
	bound      map[string]http.Handler
	errorLog   *log.Logger
	openLog    func(path string) (io.WriteCloser, error)
	inMemory   bool
	countConns func() (accepted, open, reading int64)
	explain    *explanation // nil serves
	exportSpan func(span)
}

// logger returns the logger for errors that concern no request.
func (o *options) logger() *log.Logger {
	if o.errorLog == nil {
		return log.Default()
	}
	return o.errorLog
}

// span is a Span.
type span struct {
	TraceID, SpanID, ParentID, State, Name string
	Start, End                             time.Time
	Attributes                             []slog.Attr
}
