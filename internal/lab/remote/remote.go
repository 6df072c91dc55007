// Package remote lets another machine generate the load of an experiment, over a real network.
//
// The servers stay on this machine and listen on its address in that network. A slice is measured
// where it is generated; only its command and its record pass the channel to the agent, while no
// request is in flight.
package remote

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"

	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/agent"
	"github.com/tarehq/tare/load/fleet"
)

// Generator is a trial.Generator on another machine.
type Generator struct {
	Host    string // its name
	Address string // the address of this machine on which servers listen

	fleet *fleet.Fleet
}

// Open starts an agent on a host. address is this machine's address as the host reaches it; "" is
// the one from which ssh came. The caller closes the Generator.
func Open(ctx context.Context, host fleet.Host, address string, note func(string)) (*Generator, error) {
	all, err := fleet.Open(ctx, []fleet.Host{host}, fleet.Options{Note: note})
	if err != nil {
		return nil, err
	}
	g := &Generator{Host: host.Name, fleet: all}
	if g.Address, err = ownAddress(address, all.About()[0].Caller); err != nil {
		all.Close()
		return nil, err
	}
	return g, nil
}

// ownAddress returns an address of this machine: the wanted one, or the caller that sshd reports.
// Without ssh it is the loopback address.
func ownAddress(wanted, caller string) (string, error) {
	text := wanted
	switch {
	case wanted == "" && caller == "":
		return loopback, nil
	case wanted == "":
		text = caller
	}
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Unmap().Is4() {
		return "", fmt.Errorf("remote: address %q: want an IPv4 address of this machine that the generator reaches", text)
	}
	text = address.Unmap().String()
	l, err := net.Listen("tcp4", net.JoinHostPort(text, "0"))
	if err != nil {
		return "", fmt.Errorf("remote: %w (want an address of this machine that the generator reaches)", err)
	}
	return text, l.Close()
}

const loopback = "127.0.0.1"

// Close ends the agent.
func (g *Generator) Close() { g.fleet.Close() }

// Open implements trial.Generator.
func (g *Generator) Open(ctx context.Context, p load.Plan) (trial.Session, error) {
	p.CPUs, p.Threads = nil, 0
	s, err := g.fleet.OpenSession(ctx, p, describeTLS(p.TLS))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// resumptions is the number of TLS sessions that the agent keeps if any are resumed.
const resumptions = 64

// describeTLS returns the part of a TLS configuration that the lab uses.
func describeTLS(c *tls.Config) *agent.TLS {
	if c == nil {
		return nil
	}
	t := &agent.TLS{Insecure: c.InsecureSkipVerify, ServerName: c.ServerName, Curves: c.CurvePreferences}
	if c.ClientSessionCache != nil {
		t.Sessions = resumptions
	}
	return t
}
