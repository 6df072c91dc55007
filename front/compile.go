package front

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/places"
)

// compiler makes a plan of a Config.
type compiler struct {
	config  *conf.Config
	options *options
	state   *state
	plan    *plan
	modules []module

	slots         map[string]int           // of variables in exchange.vars
	assigned      map[string]bool          // those that a Set or a Map sets; the others are named groups
	replaced      map[string]bool          // those of named groups and auth_request_set
	core          map[string]knownVariable // of nginx
	maps          map[string]*mapping
	setsLimitRate bool          // a Set sets $limit_rate
	textNeeds     needs         // of the text at hand
	namedTargets  []string      // of the host: they must exist
	shares        map[any]any   // compiled parts, by keys of types of their own
	noSettings    conf.Settings // of places without Settings

	logFiles map[string]*accesslog.File // by path

	countingKnown bool
}

// newCompiler returns a compiler for a new plan. all are the modules.
func newCompiler(config *conf.Config, o *options, s *state, all []module) *compiler {
	product := productName()
	c := &compiler{
		config: config, options: o, state: s, modules: all,
		slots: make(map[string]int), assigned: make(map[string]bool), replaced: make(map[string]bool),
		core: allVariables(product, all), maps: make(map[string]*mapping), shares: make(map[any]any),
		plan: &plan{options: o, state: s, modules: all, product: product, shutdownTimeout: config.ShutdownTimeout},
	}
	c.plan.users.Store(1)
	s.plans.Add(1)
	c.plan.expired, c.plan.expire = context.WithCancel(context.Background())
	unwatch := context.AfterFunc(s.aborted, c.plan.expire)
	c.plan.releases = append(c.plan.releases, func() { unwatch() })
	return c
}

// compile makes a plan. After an error it releases what the plan has acquired.
func compile(config *conf.Config, o *options, s *state, all []module) (*plan, error) {
	c := newCompiler(config, o, s, all)
	if err := c.compile(); err != nil {
		c.plan.retire()
		return nil, fmt.Errorf("front: %w", err)
	}
	return c.plan, nil
}

func (c *compiler) compile() error {
	if err := c.declare(); err != nil {
		return err
	}
	if len(c.config.Hosts) == 0 {
		return errors.New("no hosts: Config.Hosts needs at least one")
	}
	if err := checkWords(c.config); err != nil {
		return err
	}
	if err := c.compileMaps(); err != nil {
		return err
	}
	for at, m := range c.modules {
		if m.prepare == nil {
			continue
		}
		if err := m.prepare(c, slot(at)); err != nil {
			return err
		}
	}
	hosts := make([]*host, 0, len(c.config.Hosts))
	for i := range c.config.Hosts {
		h, err := c.host(&c.config.Hosts[i])
		if err != nil {
			return withPos(c.config.Hosts[i].Pos, err)
		}
		hosts = append(hosts, h)
	}
	if err := c.listen(hosts); err != nil {
		return err
	}
	c.plan.slots = len(c.slots)
	return nil
}

// productName returns the name and version that error pages show.
func productName() string {
	const name, path = "tare", "github.com/tarehq/tare"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return name
	}
	version := ""
	if info.Main.Path == path {
		version = info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == path {
			version = d.Version
		}
	}
	if version == "" || version == "(devel)" {
		return name
	}
	return name + "/" + strings.TrimPrefix(version, "v")
}

// withPos adds a position to an error, unless it has one or pos is empty.
func withPos(pos string, err error) error { return places.At(pos, err) }
