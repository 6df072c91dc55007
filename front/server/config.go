package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf"
)

// A Source supplies a Server's configuration: a File, or a *Config, which never changes.
type Source interface {
	// Read returns the configuration. A Server calls it when it starts and for each reload.
	// bound are the names of bound handlers.
	Read(bound []string) (*Config, error)
}

// Config is what a Server runs. As a Source it never changes: a reload only rereads certificates.
type Config struct {
	// Name is the configuration's name in messages.
	Name string
	// Front are the hosts. If Process has no Listeners, their addresses are opened, with the
	// defaults of nginx for connections.
	Front conf.Config
	// Process are the settings of the process.
	Process nginxconf.Process
	// Handler, if it is not nil, makes the handler that is the content of all hosts and locations. It
	// is called after the privileges have been given up; the result is closed at the end if it is an
	// io.Closer.
	Handler func() (http.Handler, error)

	// Ignored directives and Warnings are printed when the configuration becomes active. Notes are
	// printed by Check; of those Run prints the number.
	Ignored, Warnings, Notes []nginxconf.Message
}

// Read implements Source.
func (c *Config) Read([]string) (*Config, error) { return c, nil }

// File is an nginx.conf.
type File struct {
	Path    string
	Options nginxconf.Options // Bound is added to, and the Server sets HTTP3 and Tracing
}

// Read implements Source.
func (f File) Read(bound []string) (*Config, error) {
	o := f.Options
	o.Bound = append(slices.Clip(o.Bound), bound...)
	result, err := nginxconf.Parse(f.Path, o)
	if err != nil {
		return nil, err
	}
	if len(result.Config.Hosts) == 0 { // a stock nginx.conf whose includes match no files
		result.Config.Hosts = []conf.Host{{Steps: []conf.Step{conf.Return{Status: http.StatusNotFound}}}}
	}
	return &Config{Name: f.Path, Front: result.Config, Process: result.Process, Ignored: result.Ignored,
		Warnings: result.Warnings, Notes: result.Notes}, nil
}

// ConfigError reports that a configuration cannot be run: it, or what it names, is invalid. Errors
// of the machine, such as a port that is in use, have other types.
type ConfigError struct {
	// Err may be several joined errors.
	Err error
	// InOptions reports that the Options are invalid, not the configuration.
	InOptions bool
}

// Error implements error.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap is for package errors.
func (e *ConfigError) Unwrap() error { return e.Err }

func configError(err error) error {
	if err == nil {
		return nil
	}
	return &ConfigError{Err: err}
}

func (s *Server) read() (*Config, error) {
	var names []string
	for _, b := range s.bound {
		names = append(names, b.name)
	}
	source := s.source
	if file, ok := source.(File); ok {
		file.Options.HTTP3, file.Options.Tracing = s.options.HTTP3 != nil, s.options.Tracing != nil
		source = file
	}
	var c *Config
	err := await(func() (err error) { c, err = source.Read(names); return err }, s.stopped)
	if err == nil && c == nil {
		err = errors.New("server: the Source returned no configuration")
	}
	if err != nil {
		return nil, configError(err)
	}
	if len(c.Process.Listeners) == 0 {
		filled := *c
		filled.Process.Listeners = listenersOf(c.Front.Hosts)
		c = &filled
	}
	if s.options.HTTP3 == nil {
		for i := range c.Process.Listeners {
			if l := &c.Process.Listeners[i]; grammar.IsQUIC(l.Addr) {
				return nil, configError(fmt.Errorf("listen %s: HTTP/3 requires Options.HTTP3", l.Addr))
			}
		}
	}
	if c.Process.SpanExporter != nil && s.options.Tracing == nil {
		return nil, configError(errors.New("otel_exporter requires Options.Tracing"))
	}
	return c, nil
}

// await returns the error of f, or errStopped once stop is closed: f may wait for another program,
// such as the writer of a named pipe, or be the user's. Its goroutine then stays.
func await(f func() error, stop <-chan struct{}) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-stop:
		return errStopped
	}
}

// errStopped is returned if Run must end before what it does is done.
var errStopped = errors.New("the server is about to stop")

// listenersOf returns the addresses of hosts, each once.
func listenersOf(hosts []conf.Host) []nginxconf.Listener {
	var all []nginxconf.Listener
	at := make(map[string]int)
	for i := range hosts {
		for _, l := range hosts[i].Listen {
			if n, ok := at[l.Addr]; ok {
				same := &all[n]
				same.TLS, same.HTTP2, same.Proxied = same.TLS || l.TLS, same.HTTP2 || l.HTTP2, same.Proxied || l.Proxied
				continue
			}
			at[l.Addr] = len(all)
			all = append(all, nginxconf.NewListener(l))
		}
	}
	return all
}

// printMessages prints the messages about a valid configuration. Notes are many, and printed only
// if all is set.
func (s *Server) printMessages(c *Config, all bool) {
	s.printEach("ignored: ", c.Ignored)
	s.printEach("warning: ", c.Warnings)
	if !all && len(c.Notes) > 0 {
		s.log.print(fmt.Sprintf("directives without effect or with a different one: %d (a check lists them)",
			len(c.Notes)))
		return
	}
	s.printEach("note: ", c.Notes)
}

func (s *Server) printEach(kind string, messages []nginxconf.Message) {
	for _, m := range messages {
		s.log.print(kind + m.Error())
	}
}
