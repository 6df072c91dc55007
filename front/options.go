package front

import (
	"io"
	"log"
	"net/http"
)

// Option is something that New is told besides the Config, because it is not plain.
type Option func(*options)

type options struct {
	bound      map[string]http.Handler
	errorLog   *log.Logger
	openLog    func(path string) (io.WriteCloser, error)
	inMemory   bool
	countConns func() (accepted, open int64)
}

// Bind has handler be the upstream of that name: passing a request to it is a function call. It sees the request as it would over
// the network, with the header that the Config gives it, but for RemoteAddr, TLS, the protocol's version and the context, which are the client's. An Upstream of the same
// name in the Config is not asked.
func Bind(name string, handler http.Handler) Option {
	return func(o *options) { o.bound[name] = handler }
}

// LogErrors is where errors are said for which the Config names no log. nil is package log's.
func LogErrors(l *log.Logger) Option {
	return func(o *options) { o.errorLog = l }
}

// OpenLogs has open open the files of logs, when the Handler is made and by ReopenLogs, for who has given up the right to
// open them by their paths. It should append.
func OpenLogs(open func(path string) (io.WriteCloser, error)) Option {
	return func(o *options) { o.openLog = open }
}

// CountConnections has count tell the numbers of connections that the Config has shown: those that were accepted, and of them those
// that are open. It is for servers that count by themselves, as tare.Server does, and may be asked by any goroutine. See ConnState
// for others.
func CountConnections(count func() (accepted, open int64)) Option {
	return func(o *options) { o.countConns = count }
}

// CachesInMemory has caches leave their directories alone, and keep what they keep in memory: for who only wants to know whether a Config
// is good, perhaps while another process serves it.
func CachesInMemory() Option {
	return func(o *options) { o.inMemory = true }
}

// logger is where errors are said that are no request's.
func (o *options) logger() *log.Logger {
	if o.errorLog == nil {
		return log.Default()
	}
	return o.errorLog
}
