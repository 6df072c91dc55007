// Package places visits the hosts and locations of a conf.Config, and adds their positions to
// errors. Code that searches a Config must use it, so that it misses no place.
package places

import (
	"errors"
	"iter"
	"regexp"

	"github.com/tarehq/tare/front/conf"
)

// Place is a part of a Config that has Settings: a host, whose Settings are for requests in no
// location, or a location. A location is the host's, a nested one, or that of an If.
type Place struct {
	Host     *conf.Host
	Location *conf.Location // nil for the host
	Settings *conf.Settings // the location's, or the host's Defaults; never nil
	Steps    []conf.Step    // without those in an If
	Pos      string         // the position in the configuration, or that of the enclosing place
}

// Of visits all places of a Config, enclosing ones first.
func Of(c *conf.Config) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for i := range c.Hosts {
			h := &c.Hosts[i]
			p := Place{Host: h, Settings: settingsOf(h.Defaults), Steps: h.Steps, Pos: h.Pos}
			if !p.visit(yield, h.Locations) {
				return
			}
		}
	}
}

// visit visits a place and those in it. It returns false to stop.
func (p Place) visit(yield func(Place) bool, inner []conf.Location) bool {
	if !yield(p) {
		return false
	}
	for step := range p.AllSteps() {
		if s, ok := step.(conf.If); ok && s.Location != nil &&
			!p.inside(s.Location).visit(yield, s.Location.Locations) {
			return false
		}
	}
	for i := range inner {
		if !p.inside(&inner[i]).visit(yield, inner[i].Locations) {
			return false
		}
	}
	return true
}

// inside returns the Place of a location in the place.
func (p Place) inside(l *conf.Location) Place {
	pos := l.Pos
	if pos == "" {
		pos = p.Pos
	}
	return Place{Host: p.Host, Location: l, Settings: settingsOf(l.Settings), Steps: l.Steps, Pos: pos}
}

// settingsOf returns the Settings of a place, the zero value for nil.
func settingsOf(s *conf.Settings) *conf.Settings {
	if s == nil {
		return new(conf.Settings)
	}
	return s
}

// AllSteps visits the steps of a place, and those in each If after it.
func (p Place) AllSteps() iter.Seq[conf.Step] {
	return func(yield func(conf.Step) bool) { visitSteps(p.Steps, yield) }
}

func visitSteps(steps []conf.Step, yield func(conf.Step) bool) bool {
	for _, s := range steps {
		if !yield(s) {
			return false
		}
		if inner, ok := s.(conf.If); ok && !visitSteps(inner.Then, yield) {
			return false
		}
	}
	return true
}

// Error is an error with its position in the configuration, FILE:LINE or FILE:LINE:COLUMN. Its text
// has the line, as messages of the parser do.
type Error struct {
	pos string
	err error
}

// At adds a position to an error, unless it has one or pos is empty.
func At(pos string, err error) error {
	if _, has := errors.AsType[*Error](err); has || err == nil || pos == "" {
		return err
	}
	return &Error{pos, err}
}

// Error implements error.
func (e *Error) Error() string { return Line(e.pos) + ": " + e.err.Error() }

// Unwrap is for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.err }

// Position returns the position, with the column if it is known.
func (e *Error) Position() string { return e.pos }

// Line returns a position without its column.
func Line(pos string) string {
	return regexp.MustCompile(`(:\d+):\d+$`).ReplaceAllString(pos, "$1")
}
