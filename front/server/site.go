package server

import (
	"errors"
	"fmt"
	"io"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/internal/core"
)

// openFront makes the handler, after the privileges have been given up.
func (s *Server) openFront(c *Config) error {
	options := s.handlerOptions(front.LogErrors(s.log.logger()), front.OpenLogs(s.logs.open),
		front.CountConnections(s.connections))
	if c.Handler != nil {
		h, err := c.Handler()
		if err != nil {
			return err
		}
		s.program, _ = h.(io.Closer)
		options = append(options, func(o *core.Options) { o.Handler = h })
	}
	var err error
	if s.front, err = front.New(c.Front, options...); err != nil {
		return configError(err)
	}
	exporter, err := s.newSpanExporter(c, s.front.ErrorLogger())
	if err != nil {
		return errors.Join(err, s.closeFront())
	}
	s.applySpanExporter(exporter)
	return nil
}

// closeFront closes the handler, after its last request.
func (s *Server) closeFront() error {
	err := s.front.Close()
	if s.program != nil {
		_ = s.program.Close() // no request uses it any more
	}
	return err
}

// printHandlerLog prints where the logs of a Config with a Handler are, and whether they can be
// rotated.
func (s *Server) printHandlerLog(c *Config) {
	if c.Handler == nil {
		return
	}
	for _, path := range logPaths(&c.Front) {
		if !s.logs.canReopen(path) {
			continue
		}
		if file, err := s.logs.reopen(path, logFlags); err != nil {
			s.log.print(fmt.Sprintf("log %s: %s cannot reopen it, so rotate it by copying and truncating: %v", path,
				s.userName(), err))
		} else {
			file.Close()
			s.log.print("log " + path + ": SIGUSR1 reopens it")
		}
	}
}
