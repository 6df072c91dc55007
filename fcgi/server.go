package fcgi

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/engine/fastcgi"
)

// Serve serves handler on the FastCGI connections that l accepts, until Accept fails. It closes l.
// If l is nil, Serve uses standard input, which spawn-fcgi and some web servers open as the
// listening socket. If handler is nil, it is http.DefaultServeMux.
func Serve(l net.Listener, handler http.Handler) error {
	return (&Server{Handler: handler}).Serve(l)
}

// Errors that Read of a request's body returns.
var (
	// ErrRequestAborted is returned if the web server has aborted the request.
	ErrRequestAborted = fastcgi.ErrAborted
	// ErrConnClosed is returned if the web server has closed the connection.
	ErrConnClosed = fastcgi.ErrConnClosed
)

// Server serves FastCGI. The zero value is ready. Fields are read when Serve is called and must not
// be changed afterwards. Fields of http.Server have the same meaning here.
type Server struct {
	Handler http.Handler // nil means http.DefaultServeMux

	// ReadTimeout limits the time of reading a request, including its body. 0 is no limit.
	ReadTimeout time.Duration
	// ReadParamsTimeout limits the time of receiving a request's parameters, and the time until a
	// new connection sends its first request. 0 is ReadTimeout or, if that is 0, 30 seconds.
	ReadParamsTimeout time.Duration
	// WriteTimeout limits the time of handling a request and writing its response. 0 is no limit.
	WriteTimeout time.Duration
	// IdleTimeout limits the time that a kept connection waits for its next request. 0 is
	// ReadTimeout.
	IdleTimeout time.Duration
	// MaxParamBytes limits the size of a request's parameters. 0 is http.DefaultMaxHeaderBytes, 1
	// MB.
	MaxParamBytes int

	// ErrorLog logs errors of connections and handlers. If it is nil, the log package's logger
	// does.
	ErrorLog *log.Logger
	// BaseContext returns the parent of the contexts of all requests that a listener receives. If
	// it is nil, context.Background is.
	BaseContext func(net.Listener) context.Context
	// Dispatch selects where handlers run.
	Dispatch tare.Dispatch

	once   sync.Once
	engine *engine.Server
}

// Serve serves the connections that l accepts, or those of standard input if l is nil, until
// Shutdown or Close is called. Then it returns http.ErrServerClosed. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if l == nil {
		var err error
		if l, err = net.FileListener(os.Stdin); err != nil {
			return err
		}
	}
	return s.run().Serve(l)
}

// Shutdown stops listening, closes connections that wait for a request, and waits until the others
// have sent their responses. If ctx ends before, Shutdown returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error { return s.run().Shutdown(ctx) }

// Connections returns the number of connections accepted since the first Serve, and the number of
// open ones.
func (s *Server) Connections() (accepted, open int64) { return s.run().Connections() }

// Close closes all listeners and connections at once.
func (s *Server) Close() error { return s.run().Close() }

func (s *Server) run() *engine.Server {
	s.once.Do(func() {
		s.engine = engine.New(&http.Server{
			Handler: s.Handler, DisableGeneralOptionsHandler: true,
			ReadTimeout: s.ReadTimeout, ReadHeaderTimeout: s.ReadParamsTimeout,
			WriteTimeout: s.WriteTimeout, IdleTimeout: s.IdleTimeout, MaxHeaderBytes: s.MaxParamBytes,
			ErrorLog: s.ErrorLog, BaseContext: s.BaseContext,
		})
		s.engine.FastCGI = true
		s.engine.Dispatch = s.Dispatch
	})
	return s.engine
}

// ProcessEnv returns the parameters of a request that its Request does not contain, such as
// REMOTE_USER and DOCUMENT_ROOT. For a request that was not received over FastCGI it returns nil.
// Each call makes a map, which belongs to the caller.
func ProcessEnv(r *http.Request) map[string]string {
	params := fastcgi.Params(r.Context())
	if params == nil {
		return nil
	}
	env := make(map[string]string)
	for name, value := range params {
		if !inRequest(name) {
			env[name] = value
		}
	}
	return env
}

// inRequest reports whether the Request contains a parameter.
func inRequest(name string) bool {
	switch name {
	case "CONTENT_LENGTH", "CONTENT_TYPE", "HTTPS", "PATH_INFO", "QUERY_STRING",
		"REMOTE_ADDR", "REMOTE_HOST", "REMOTE_PORT",
		"REQUEST_METHOD", "REQUEST_URI", "SCRIPT_NAME", "SERVER_PROTOCOL":
		return true
	}
	return len(name) >= len("HTTP_") && name[:len("HTTP_")] == "HTTP_"
}

// Stderr returns the error stream of a request, which web servers write to their log. w is the
// ResponseWriter of a handler of this package, or has an Unwrap method that leads to it, as for
// http.ResponseController. The stream's Write fails after the handler has returned. For a request
// that was not received over FastCGI, Stderr returns nil.
func Stderr(w http.ResponseWriter) io.Writer {
	for {
		switch t := w.(type) {
		case interface{ Stderr() io.Writer }:
			return t.Stderr()
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return nil
		}
	}
}
