package front

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/tarehq/tare/front/internal/core"
)

// Option configures New with what is not plain data.
type Option func(*core.Options)

// Bind makes handler the upstream with a name: forwarding a request to it is a function call. It
// sees the request as over the network, with the header of the Config. RemoteAddr, TLS, the
// protocol version and the context are the client's. An Upstream of the same name in the Config is
// not used.
func Bind(name string, handler http.Handler) Option {
	return func(o *core.Options) { o.Bound[name] = handler }
}

// LogErrors sets the logger for errors for which the Config has no log. Nil is package log's.
func LogErrors(l *log.Logger) Option {
	return func(o *core.Options) { o.ErrorLog = l }
}

// OpenLogs makes open open the files of logs, in New and ReopenLogs. It is for programs that have
// given up the privilege to open them by path. open should append.
func OpenLogs(open func(path string) (io.WriteCloser, error)) Option {
	return func(o *core.Options) { o.OpenLog = open }
}

// CountConnections makes count the source of the numbers of connections: accepted, open ones of
// those, and open ones on which a part of a request's head has arrived. It is for servers that
// count, as tare.Server does; for others see ConnState. count may be called by any goroutine.
func CountConnections(count func() (accepted, open, reading int64)) Option {
	return func(o *core.Options) { o.CountConns = count }
}

// ExportSpans makes export receive a Span at the end of each request that a Trace of the Config
// samples. Any goroutine may call export, which must not block: a program that sends spans to a
// collector queues them.
func ExportSpans(export func(Span)) Option {
	return func(o *core.Options) { o.ExportSpan = func(s core.Span) { export(Span(s)) } }
}

// CachesInMemory keeps caches in memory and off their directories, and starts no health checks. It
// is for programs that only check a Config, perhaps while another process serves it.
func CachesInMemory() Option {
	return func(o *core.Options) { o.InMemory = true }
}

// Span is a request, as a tracing system records it. IDs are in hexadecimal.
type Span struct {
	TraceID, SpanID string
	ParentID        string // "" begins the trace
	State           string // tracestate
	Name            string
	Start, End      time.Time
	// Attributes are strings, with the names of OpenTelemetry's semantic conventions for HTTP.
	Attributes []slog.Attr
}
