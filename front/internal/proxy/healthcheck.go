package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/internal/pcre"
)

const (
	defaultCheckInterval = 5 * time.Second
	// maxCheckedBody limits the part of a body that a match block reads, as in nginx.
	maxCheckedBody = 256 << 10
	// maxDrainedBody limits the part of a body that is read, so that the server can send all of it.
	maxDrainedBody = 64 << 10
)

// compileHealthCheck compiles a HealthCheck. It begins when the plan is in use, and ends when another one
// replaces the plan.
func compileHealthCheck(c *core.Compiler, p *proxy) {
	from := p.from.Check
	if from == nil {
		return
	}
	switch {
	case p.fastcgi != nil:
		c.Failf("proxy: health check: only HTTP servers can be checked")
	case p.target.group == nil:
		c.Failf("proxy: health check: the upstream depends on variables, or is a bound handler")
	case from.Interval < 0 || from.Jitter < 0 || from.Fails < 0 || from.Passes < 0 || from.Port < 0 ||
		from.Port > 65535:
		c.Failf("proxy: health check: negative time or number, or invalid port")
	}
	g := p.target.group
	settings := *from
	settings.Match = nil
	probe := compileProbe(c, p)
	key := fmt.Sprintf("%s %+v %+v %s", g.servers.Name, settings, from.Match, probe.key())
	if !c.Options.InMemory { // otherwise nothing is served
		core.Shared(c, checkKey(key), func() bool { addCheck(c, p, key, probe); return true })
	}
}

// checkKey identifies health checks: locations may check the same.
type checkKey string

func addCheck(c *core.Compiler, p *proxy, key string, probe *probe) {
	from, g := p.from.Check, p.target.group
	logger := c.Options.Logger()
	check := g.servers.Peers.NewCheck(upstream.CheckConfig{
		Key: key, Interval: cmp.Or(from.Interval, defaultCheckInterval), Jitter: from.Jitter,
		Fails: cmp.Or(from.Fails, 1), Passes: cmp.Or(from.Passes, 1), Mandatory: from.Mandatory,
		Persistent: from.Persistent, Probe: probe.check,
		Report: func(addr string, err error) {
			if err != nil {
				logger.Printf("upstream %s: server %s is unhealthy: %v", g.servers.Name, addr, err)
			} else {
				logger.Printf("upstream %s: server %s is healthy", g.servers.Name, addr)
			}
		},
	})
	c.Plan.Prepares = append(c.Plan.Prepares, check.Begin)
	c.Plan.Commits = append(c.Plan.Commits, check.Start)
	c.Plan.Retires = append(c.Plan.Retires, func() {
		check.Stop()
		probe.pool.Close()
	})
}

// probe sends the requests of a HealthCheck, as the location does.
type probe struct {
	upstream fetch.Upstream
	from     *conf.HealthCheck
	target   string
	host     string
	header   http.Header
	identity fetch.Identity
	pool     *fetch.Pool
	match    *healthMatch // nil is the default
}

// compileProbe compiles the requests of a HealthCheck. They have the location's fields, as far as those do
// not depend on a client's request.
func compileProbe(c *core.Compiler, p *proxy) *probe {
	from := p.from.Check
	b := &probe{upstream: p.upstream, from: from, target: cmp.Or(from.URI, "/"), host: p.target.name.host,
		header: make(http.Header)}
	b.upstream.Next = conf.NextUpstream{Off: true}
	if target, err := url.ParseRequestURI(b.target); err != nil || target.IsAbs() {
		c.Failf("proxy: health check: invalid uri %q", b.target)
	}
	if h := p.header.host; h != nil && h.Literal != "" {
		b.host = h.Literal
	}
	for i := range p.header.fields {
		if f := &p.header.fields[i]; f.Value.Constant() {
			b.header.Add(f.Name, f.Value.Literal)
		}
	}
	if b.header["User-Agent"] == nil {
		b.header["User-Agent"] = nil // none
	}
	if p.target.usesTLS {
		b.identity.UsesTLS = true
		b.identity.Name = fetch.CertificateName(cmp.Or(p.tlsName.Literal, b.host))
	}
	b.pool = fetch.NewPool(&p.from.TLS, fetch.KeepAlive{}, b.upstream.IsHTTP2)
	if from.Match != nil {
		b.match = compileHealthMatch(c, from.Match)
	}
	return b
}

// key identifies requests that the same HealthCheck sends for another location.
func (b *probe) key() string {
	return fmt.Sprintf("%v %q %q %q", b.upstream.IsHTTP2, b.host, b.header, b.identity.Name)
}

func (b *probe) check(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, b.upstream.ConnectTimeout+b.upstream.ReadTimeout)
	defer cancel()
	if b.upstream.IsHTTP2 {
		defer b.pool.Close() // HTTP/2 keeps connections
	}
	q := &fetch.Request{Method: http.MethodGet, Target: b.target, Host: b.host, Header: b.header}
	if err := b.choose(q, addr); err != nil {
		return err
	}
	resp, err := b.upstream.Do(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := b.match.check(resp); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, resp.Body, maxDrainedBody)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// choose makes the server at an address the only one of a request.
func (b *probe) choose(q *fetch.Request, addr string) (err error) {
	if strings.HasPrefix(addr, "/") {
		addr = "unix:" + addr
	} else if b.from.Port != 0 {
		if addr, _, err = net.SplitHostPort(addr); err != nil {
			return err
		}
		addr = net.JoinHostPort(addr, strconv.Itoa(b.from.Port))
	}
	one := conf.Upstream{Name: addr, Servers: []conf.Server{{Addr: addr}}}
	peers, err := upstream.New(one, new(upstream.State), upstream.Options{})
	if err != nil {
		return err
	}
	q.Servers, q.Turn = &fetch.Servers{Name: addr, Peers: peers}, peers.Turn("", netip.Addr{})
	q.Transport, err = b.pool.Transport(b.identity)
	return err
}

type healthMatch struct {
	from   *conf.HealthMatch
	header []*core.Pattern // nil where the comparison needs none
	body   *core.Pattern
}

func compileHealthMatch(c *core.Compiler, from *conf.HealthMatch) *healthMatch {
	m := &healthMatch{from: from, header: make([]*core.Pattern, len(from.Header))}
	for i, h := range from.Header {
		if h.Op == "~" || h.Op == "!~" {
			m.header[i] = c.ParsePattern("match "+from.Name, h.Value, false)
		}
	}
	if from.Body != "" {
		m.body = c.ParsePattern("match "+from.Name, from.Body, false)
	}
	return m
}

// check returns why a response is not a success. It may read the body.
func (m *healthMatch) check(resp *http.Response) error {
	if m == nil {
		if resp.StatusCode < 200 || resp.StatusCode > 399 {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}
	isListed := slices.ContainsFunc(m.from.Statuses,
		func(r [2]int) bool { return resp.StatusCode >= r[0] && resp.StatusCode <= r[1] })
	if m.from.Statuses != nil && isListed == m.from.NotStatus {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	for i := range m.from.Header {
		if h := &m.from.Header[i]; !m.matchesField(i, resp.Header.Values(h.Name)) {
			return fmt.Errorf("field %s %q", h.Name, errorlog.Truncate(strings.Join(resp.Header.Values(h.Name), ", ")))
		}
	}
	if m.body == nil {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxCheckedBody))
	if err != nil {
		return err
	}
	if !meets(m.body, string(body), !m.from.NotBody) {
		return errors.New("the body does not match")
	}
	return nil
}

// matchesField reports whether the values of a field meet the i-th condition.
func (m *healthMatch) matchesField(i int, values []string) bool {
	h, value := &m.from.Header[i], strings.Join(values, ", ")
	switch h.Op {
	case "":
		return values != nil
	case "!":
		return values == nil
	case "=":
		return value == h.Value
	case "!=":
		return value != h.Value
	}
	return meets(m.header[i], value, h.Op == "~")
}

// meets reports whether matching s, outside of an exchange, has the wanted result. A match that
// takes too long has neither.
func meets(p *core.Pattern, s string, wanted bool) bool {
	ok, err := p.Re.Match(s, new(pcre.Budget))
	return ok == wanted && err == nil
}
