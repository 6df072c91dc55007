package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
)

// site is what a Server serves: a front.Handler, or a handlerSite.
type site interface {
	http.Handler
	LogRejected(r *http.Request, line string, status int, sent int64)
	ReopenLogs(ctx context.Context) error
	// Abort ends requests in progress, so that Close need not wait for them.
	Abort()
	Close() error
	// HostAt returns the hosts of a name and of unknown names at an address, for TLS.
	HostAt(local net.Addr, name string) (host, defaultHost *conf.Host)
}

// openSite makes what is served, after the privileges have been given up.
func (s *Server) openSite(c *Config) (err error) {
	if c.Handler != nil {
		s.site, err = s.openHandler(c)
		return err
	}
	exporter, err := s.newSpanExporter(c, s.errors.logger())
	if err != nil {
		return err
	}
	s.applySpanExporter(exporter)
	s.front, err = front.New(c.Front, s.handlerOptions(front.LogErrors(s.errors.logger()),
		front.OpenLogs(s.logs.open), front.CountConnections(s.connections))...)
	s.site = s.front
	return configError(err)
}

// handlerSite is a handler of the program that serves all requests, and their log.
type handlerSite struct {
	http.Handler // program, with its log
	program      http.Handler
	host         *conf.Host
	format       accesslog.Format
	log          *accesslog.File // nil without a log
}

// CheckLogFormat returns an error if name is not the Format of a log of a Config with a Handler:
// "common" is the Common Log Format, "combined" adds Referer and User-Agent, "json" is one object a
// line.
func CheckLogFormat(name string) error {
	_, err := accesslog.ParseFormat(name)
	return err
}

// openHandler makes the site of a Config with a Handler.
func (s *Server) openHandler(c *Config) (site, error) {
	h := &handlerSite{host: &c.Front.Hosts[0]}
	var err error
	if h.program, err = c.Handler(); err != nil {
		return nil, err
	}
	h.Handler = h.program
	l := handlerLog(c)
	if l == nil {
		return h, nil
	}
	if h.format, err = accesslog.ParseFormat(l.Format); err != nil {
		return nil, configError(err)
	}
	open := func() (io.WriteCloser, error) { return s.logs.open(l.Path) }
	h.log, err = accesslog.Open(open, !s.logs.canReopen(l.Path), h.format.Lost,
		func(text string) { s.log.print("access log: " + text) })
	if err != nil {
		return nil, configError(err)
	}
	h.Handler = accesslog.Handler(h.program, h.format, h.log)
	return h, nil
}

// LogRejected implements site.
func (h *handlerSite) LogRejected(r *http.Request, line string, status int, sent int64) {
	if h.log != nil {
		_, _ = h.log.Write(h.format.Rejected(r, line, status, sent)) // lost lines are counted
	}
}

// ReopenLogs implements site.
func (h *handlerSite) ReopenLogs(ctx context.Context) error {
	if h.log == nil {
		return errNoLogFile
	}
	return h.log.Reopen(ctx)
}

// Abort implements site. Close waits for no request.
func (h *handlerSite) Abort() {}

// Close implements site. Its error reports lost log lines.
func (h *handlerSite) Close() error {
	if c, ok := h.program.(io.Closer); ok {
		_ = c.Close() // no request uses it any more
	}
	if h.log == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	if err := h.log.Close(ctx); err != nil {
		return fmt.Errorf("access log: %w", err)
	}
	return nil
}

// handlerLog returns the log of a Config with a Handler, or nil.
func handlerLog(c *Config) *conf.Log {
	s := c.Front.Hosts[0].Defaults
	if s == nil || len(s.Logs) == 0 {
		return nil
	}
	return &s.Logs[0]
}

// HostAt implements site.
func (h *handlerSite) HostAt(net.Addr, string) (host, defaultHost *conf.Host) { return h.host, h.host }

var errNoLogFile = errors.New("there is no file to reopen")

// reopenHandlerLog reopens the log of a Config with a Handler.
func (s *Server) reopenHandlerLog(ctx context.Context) error {
	path := ""
	if l := handlerLog(s.config); l != nil {
		path = l.Path
	}
	if !s.logs.canReopen(path) {
		s.log.print("access log: " + errNoLogFile.Error())
		return nil
	}
	if err := s.site.ReopenLogs(ctx); err != nil {
		s.log.print(fmt.Sprintf("access log: reopening failed, still writing the old file: %v", err))
		return err
	}
	s.log.print("access log: reopened")
	return nil
}

// printHandlerLog prints where the log of a Config with a Handler is, and whether it can be
// rotated.
func (s *Server) printHandlerLog(c *Config) {
	l := handlerLog(c)
	if c.Handler == nil || l == nil {
		return
	}
	text := fmt.Sprintf("access log: %s, %s", l.Path, l.Format)
	if !s.logs.canReopen(l.Path) {
		s.log.print(text)
		return
	}
	file, err := s.logs.reopen(l.Path, logFlags)
	if err != nil {
		s.log.print(fmt.Sprintf("%s; %s cannot reopen it, so rotate it by copying and truncating: %v", text,
			s.userName(), err))
		return
	}
	file.Close()
	s.log.print(text + "; SIGUSR1 reopens it")
}

// refused is tare.Server.Refused.
func (s *Server) refused(r tare.Refusal) { s.site.LogRejected(r.Request, r.Line, r.Status, r.Sent) }
