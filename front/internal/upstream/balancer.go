package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// balancer returns the index of an available peer of the turn's list, or -1 to leave the choice to
// round robin. It is called only if there are several peers.
type balancer func(t *Turn) int

type method struct {
	hasKey     bool // its first argument is the key, which each request has a value of
	usesClient bool // it chooses by the client's address
	slowStarts bool // it respects slow_start
	// make returns the balancer of a group. It checks the arguments, without the key.
	make func(args []string, servers []conf.Server) (balancer, error)
}

// methods returns the load balancing methods by the names of their directives. A new one is a file
// of this package, a line here, and a row in package nginxconf's table.
func methods() map[string]method {
	return map[string]method{
		"":     {slowStarts: true, make: noArguments(func(t *Turn) int { return smooth(t.list.peers) })},
		"hash": hashMethod(),
		"ip_hash": {usesClient: true, make: noArguments(func(t *Turn) int {
			return t.walk.byIP(t.list.peers, t.list.total, t.client)
		})},
		"least_conn": {slowStarts: true, make: noArguments(func(t *Turn) int { return leastConn(t.list.peers) })},
		"random":     randomMethod(),
	}
}

// setBalance sets the method of the group, its key and its balancer.
func (g *Group) setBalance() (err error) {
	of, ok := g.config.Balance, false
	if g.method, ok = methods()[of.Method]; !ok {
		return fmt.Errorf("unknown load balancing method %q: want one of %s", of.Method,
			strings.Join(slices.Sorted(maps.Keys(methods())), " "))
	}
	var args []string
	for _, arg := range of.Args {
		args = append(args, string(arg))
	}
	if g.method.hasKey {
		if len(args) == 0 || args[0] == "" {
			return fmt.Errorf("%s requires a key", of.Method)
		}
		g.key, args = of.Args[0], args[1:]
	}
	if g.balance, err = g.method.make(args, g.config.Servers); err != nil {
		return fmt.Errorf("%s: %w", of.Method, err)
	}
	return nil
}

// noArguments returns the make of a method without arguments.
func noArguments(b balancer) func([]string, []conf.Server) (balancer, error) {
	return func(args []string, _ []conf.Server) (balancer, error) {
		if len(args) > 0 {
			return nil, fmt.Errorf("unexpected argument %q", args[0])
		}
		return b, nil
	}
}

// peer is a server at one address, as the load balancing methods see it.
type peer struct {
	weight    int
	effective int // the weight, reduced by failures
	step      int // how much of the weight is regained with each choice
	current   int // of round robin: the highest is next
	conns     int
	out       bool // not available this time
}
