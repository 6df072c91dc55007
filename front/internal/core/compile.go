package core

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
)

// Compiler makes a plan of a Config.
type Compiler struct {
	Config  *conf.Config
	Options *Options
	State   *State
	Plan    *Plan
	modules []Module

	Slots         map[string]int           // of variables in Exchange.Vars
	Assigned      map[string]bool          // variables that a Set or a Map sets; the others in Slots are named groups
	replaced      map[string]bool          // variables of named groups and auth_request_set
	Known         map[string]KnownVariable // of nginx
	maps          map[string]*mapping
	setsLimitRate bool          // a Set sets $limit_rate
	TextNeeds     needs         // of the text at hand
	shares        map[any]any   // compiled parts, by keys of types of their own
	noSettings    conf.Settings // of places without Settings

	kept error // see keep
}

// NewCompiler returns a compiler for a new plan. all are the modules.
func NewCompiler(config *conf.Config, o *Options, s *State, all []Module) *Compiler {
	product := productName()
	c := &Compiler{
		Config: config, Options: o, State: s, modules: all,
		Slots: make(map[string]int), Assigned: make(map[string]bool), replaced: make(map[string]bool),
		Known: AllVariables(product, all), maps: make(map[string]*mapping), shares: make(map[any]any),
		Plan: &Plan{Options: o, State: s, modules: all, product: product, errors: o.programLog(),
			ShutdownTimeout: config.ShutdownTimeout},
	}
	c.Plan.Users.Store(1)
	s.Plans.Add(1)
	for p := range places.Of(config) {
		if l := p.Location; l != nil && (l.Status || l.Metrics) {
			c.Plan.counts = &s.Counts
		}
	}
	c.Plan.Expired, c.Plan.Expire = context.WithCancel(context.Background())
	unwatch := context.AfterFunc(s.aborted, c.Plan.Expire)
	c.Plan.Releases = append(c.Plan.Releases, func() { unwatch() })
	return c
}

// Compile makes a plan. After an error it releases what the plan has acquired.
func Compile(config *conf.Config, o *Options, s *State, all []Module) (*Plan, error) {
	c := NewCompiler(config, o, s, all)
	if err := c.compile(); err != nil {
		o.configLog.CompareAndSwap(c.Plan.errors, nil)
		c.Plan.Retire()
		return nil, fmt.Errorf("front: %w", err)
	}
	return c.Plan, nil
}

func (c *Compiler) compile() error {
	for _, compile := range []func() error{
		c.declare, c.checkConfig, c.checkTexts, c.compileErrorLog, c.compileMaps,
	} {
		if err := compile(); err != nil {
			return err
		}
	}
	for at, m := range c.modules {
		if m.Prepare == nil {
			continue
		}
		if err := c.failure(m.Prepare(c, Slot(at))); err != nil {
			return err
		}
	}
	hosts := make([]*host, 0, len(c.Config.Hosts))
	for i := range c.Config.Hosts {
		h, err := c.host(&c.Config.Hosts[i])
		if err = c.WithPos(c.Config.Hosts[i].Pos, err); err != nil {
			return err
		}
		hosts = append(hosts, h)
	}
	if err := c.failure(c.listen(hosts)); err != nil {
		return err
	}
	c.Plan.slots = len(c.Slots)
	return nil
}

func productName() string {
	const name, path = "tare", "github.com/tarehq/tare"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return name
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "" && m.Version != "(devel)" {
			return name + "/" + strings.TrimPrefix(m.Version, "v")
		}
	}
	return name
}

// keep keeps the first error of the texts and regular expressions of a part of the Config. A part
// has many of them, and is not used if one has an error, so WithPos returns it for all.
func (c *Compiler) keep(what string, err error) {
	if c.kept == nil && err != nil {
		c.kept = fmt.Errorf("%s: %w", what, err)
	}
}

// failure returns the error that was kept, or else err.
func (c *Compiler) failure(err error) error {
	if c.kept != nil {
		err, c.kept = c.kept, nil
	}
	return err
}

// WithPos ends a part of the Config. It returns the error that Text or Pattern has kept, or else err,
// with the position of the part, unless it has one already or pos is empty.
func (c *Compiler) WithPos(pos string, err error) error { return places.At(pos, c.failure(err)) }

// Shared returns the part with a key, and compiles it at its first use. Locations with equal parts
// share them: most parts are inherited.
func Shared[T any](c *Compiler, key any, compile func() (T, error)) (T, error) {
	if part, ok := c.shares[key]; ok {
		return part.(T), nil
	}
	part, err := compile()
	if err == nil {
		c.shares[key] = part
	}
	return part, err
}
