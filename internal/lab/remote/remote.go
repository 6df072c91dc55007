// Package remote lets another machine generate the load of an experiment, over a real network.
//
// The servers stay on this machine and listen on its address in that network. A slice is measured
// where it is generated; only its command and its record pass the channel to the agent, while no
// request is in flight.
package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
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
	text := cmp.Or(wanted, caller)
	if text == "" {
		return loopback, nil
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

// describeTLS returns the part of a TLS configuration that the lab uses.
func describeTLS(c *tls.Config) *agent.TLS {
	if c == nil {
		return nil
	}
	t := &agent.TLS{Insecure: c.InsecureSkipVerify, ServerName: c.ServerName, MinVersion: c.MinVersion,
		Curves: c.CurvePreferences}
	if c.ClientSessionCache != nil {
		t.Sessions = trial.SessionCache
	}
	return t
}

const (
	tripTime = 300 * time.Millisecond // how long round trips are measured
	bulkTime = 500 * time.Millisecond // how long the bandwidth of a direction is measured
	// bulkWarmup is the time in which TCP finds the bandwidth, and is not measured.
	bulkWarmup = 200 * time.Millisecond
	bulkSize   = 256 << 10 // number of bytes of a body that measures the bandwidth
	// bulkConnections carry such bodies at once.
	bulkConnections = 4
	linkTimeout     = 10 * time.Second // limits a request that measures the link
)

// Link measures the network between the generator and this machine with requests to a server of its
// own, as the trials use it.
func (g *Generator) Link(ctx context.Context) (*sample.Link, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort(g.Address, "0"))
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(serveLink), ReadHeaderTimeout: linkTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until Close
	}()
	defer func() {
		_ = server.Close()
		<-done
	}()
	url := "http://" + l.Addr().String()
	link := &sample.Link{Host: g.Host, Address: g.Address}
	trips, err := g.slice(ctx, load.Plan{URL: url + "/", Connections: 1}, tripTime)
	if err != nil {
		return nil, err
	}
	link.RoundTrip, link.ShortestTrip = trips.Service.Quantile(0.5), trips.Service.Quantile(0)
	down, err := g.slice(ctx, load.Plan{URL: url + "/bulk", Connections: bulkConnections}, bulkTime)
	if err != nil {
		return nil, err
	}
	link.FromServers = float64(down.Bytes) / down.Seconds
	up, err := g.slice(ctx, load.Plan{URL: url + "/", Method: http.MethodPost, Body: strings.Repeat("a", bulkSize),
		Connections: bulkConnections}, bulkTime)
	if err != nil {
		return nil, err
	}
	link.ToServers = float64(up.SentBytes) / up.Seconds
	return link, nil
}

func (g *Generator) slice(ctx context.Context, p load.Plan, d time.Duration) (*load.Result, error) {
	p.Timeout = linkTimeout
	s, err := g.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	_, err = s.Slice(ctx, bulkWarmup, false)
	if err == nil {
		_, err = s.Slice(ctx, d, true)
	}
	r := s.Close()
	if err == nil && r.Requests == 0 {
		err = &load.ConnectError{URL: p.URL, First: r.Errors.First}
	}
	return r, err
}

func serveLink(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.URL.Path == "/bulk" {
		_, _ = io.WriteString(w, strings.Repeat("a", bulkSize))
	}
}
