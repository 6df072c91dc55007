package core

import (
	"cmp"
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

	pos string // the position of the part at hand
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
	c.Plan.Expired, c.Plan.Expire = context.WithCancel(context.Background())
	unwatch := context.AfterFunc(s.aborted, c.Plan.Expire)
	c.Plan.Releases = append(c.Plan.Releases, func() { unwatch() })
	return c
}

// Compile makes a plan. After an error it releases what the plan has acquired.
func Compile(config *conf.Config, o *Options, s *State, all []Module) (*Plan, error) {
	c := NewCompiler(config, o, s, all)
	if err := catch(c.compile); err != nil {
		o.configLog.CompareAndSwap(c.Plan.errors, nil)
		c.Plan.Retire()
		return nil, fmt.Errorf("front: %w", err)
	}
	return c.Plan, nil
}

func (c *Compiler) compile() {
	c.declare()
	c.checkConfig()
	c.checkTexts()
	c.compileErrorLog()
	c.compileMaps()
	for at, m := range c.modules {
		if m.Prepare != nil {
			m.Prepare(c, Slot(at))
		}
	}
	hosts := make([]*host, len(c.Config.Hosts))
	for i := range hosts {
		from := &c.Config.Hosts[i]
		c.At(from.Pos, func() { hosts[i] = c.host(from) })
	}
	c.listen(hosts)
	c.Plan.slots = len(c.Slots)
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

// At compiles a part of the Config. Its errors get the position, or that of the enclosing part if
// pos is empty.
func (c *Compiler) At(pos string, compile func()) {
	before := c.pos
	c.pos = cmp.Or(pos, before)
	compile()
	c.pos = before
}

// failure is a panic that ends the compilation of a Config at its first error, which Compile
// returns. So the functions that compile parts return no errors.
type failure struct{ error }

// Check ends the compilation unless err is nil. what precedes the error, unless it is empty.
func (c *Compiler) Check(what string, err error) {
	if err == nil {
		return
	}
	if what != "" {
		err = fmt.Errorf("%s: %w", what, err)
	}
	panic(failure{places.At(c.pos, err)})
}

// Failf ends the compilation with an error.
func (c *Compiler) Failf(format string, args ...any) { c.Check("", fmt.Errorf(format, args...)) }

// catch returns the error that ended compile, or nil.
func catch(compile func()) (err error) {
	defer func() {
		switch why := recover().(type) {
		case nil:
		case failure:
			err = why.error
		default:
			panic(why)
		}
	}()
	compile()
	return nil
}

// Shared returns the part with a key, and compiles it at its first use. Locations with equal parts
// share them: most parts are inherited.
func Shared[T any](c *Compiler, key any, compile func() T) T {
	if part, ok := c.shares[key]; ok {
		return part.(T)
	}
	part := compile()
	c.shares[key] = part
	return part
}
