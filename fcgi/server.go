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
)

// Serve serves handler on the FastCGI connections that l accepts, until accepting fails, and
// closes l. A nil l is standard input, where spawn-fcgi and web servers that start their
// applications put the listening socket. A nil handler is http.DefaultServeMux.
func Serve(l net.Listener, handler http.Handler) error {
	return (&Server{Handler: handler}).Serve(l)
}

// Errors that Read of a request's body returns.
var (
	// ErrRequestAborted is returned when the web server has aborted the request.
	ErrRequestAborted = engine.ErrAborted
	// ErrConnClosed is returned when the web server has closed the connection.
	ErrConnClosed = engine.ErrConnClosed
)

// Server serves FastCGI. The zero value works. Fields are read when Serve is called and must
// not be changed afterwards; where http.Server has them, they mean what they mean there.
type Server struct {
	Handler http.Handler // nil is http.DefaultServeMux

	// ReadTimeout bounds reading a request, its body included. 0 is no bound.
	ReadTimeout time.Duration
	// ReadParamsTimeout bounds receiving a request's parameters, and how long a new
	// connection may take for its first. 0 is ReadTimeout or, without one, 30 seconds.
	ReadParamsTimeout time.Duration
	// WriteTimeout bounds handling a request and writing its response. 0 is no bound.
	WriteTimeout time.Duration
	// IdleTimeout bounds how long a kept connection may wait for its next request. 0 is
	// ReadTimeout.
	IdleTimeout time.Duration
	// MaxParamBytes bounds a request's parameters. 0 is http.DefaultMaxHeaderBytes, 1 MB.
	MaxParamBytes int

	// ErrorLog gets what goes wrong with connections and handlers. nil is package log's.
	ErrorLog *log.Logger
	// BaseContext returns the context that those of all requests of a listener derive from.
	// nil is context.Background.
	BaseContext func(net.Listener) context.Context
	// Dispatch says where handlers run.
	Dispatch tare.Dispatch

	once   sync.Once
	engine *engine.Server
}

// Serve serves the connections that l accepts, and standard input's if l is nil, until
// Shutdown or Close; then it returns http.ErrServerClosed. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if l == nil {
		var err error
		if l, err = net.FileListener(os.Stdin); err != nil {
			return err
		}
	}
	return s.run().Serve(l)
}

// Shutdown stops listening, closes connections that wait for a request, and returns when the
// others have had their responses, or with ctx's error.
func (s *Server) Shutdown(ctx context.Context) error { return s.run().Shutdown(ctx) }

// Close closes listeners and connections at once.
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

// ProcessEnv returns the parameters of a request that are not found in the Request, such as
// REMOTE_USER and DOCUMENT_ROOT, or nil if it did not come by FastCGI. The map is the
// caller's; each call makes one.
func ProcessEnv(r *http.Request) map[string]string {
	params := engine.FastCGIParams(r.Context())
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

// inRequest reports whether a parameter is found in the Request.
func inRequest(name string) bool {
	switch name {
	case "CONTENT_LENGTH", "CONTENT_TYPE", "HTTPS", "PATH_INFO", "QUERY_STRING",
		"REMOTE_ADDR", "REMOTE_HOST", "REMOTE_PORT",
		"REQUEST_METHOD", "REQUEST_URI", "SCRIPT_NAME", "SERVER_PROTOCOL":
		return true
	}
	return len(name) >= len("HTTP_") && name[:len("HTTP_")] == "HTTP_"
}

// Stderr returns the request's error stream, which web servers write to their log: of w, the
// ResponseWriter that a handler of this package's got, or one that unwraps to it as
// http.ResponseController does. Its Write fails when the handler has returned. For a request
// that did not come by FastCGI it is nil.
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
