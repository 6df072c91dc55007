package core

import (
	"crypto/tls"
	"net/http"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/clientcert"
	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/front/internal/nginxstatus"
)

type host struct {
	from        *conf.Host // nil if no Host of the Config
	name        string     // the first one, for $server_name
	pos         string
	steps       []action
	locations   locations
	named       map[string]*Location
	defaults    Location // for requests in no location
	KeepSlashes bool
	Fields      message.FieldNames   // which fields of requests are forwarded
	Certs       *clientcert.Verifier // nil leaves client certificates to the server
	clientAuth  tls.ClientAuthType   // what the server requires, if certs is nil
	counts      *ResponseCounts      // nil if nothing shows counts
}

// hostGroup holds the hosts of one address.
type hostGroup struct {
	defaultHost   *host // for unknown names
	hosts         int
	isSingle      bool // names do not matter
	names         *hostname.Map[*host]
	patterns      []hostPattern
	requestsCerts bool // one of the hosts requests client certificates
	connections   connectionRules
}

// connectionRules are properties of an address that its connections must have. After a reload a
// connection may be of another Config, in which its address had others, or was not named.
type connectionRules struct {
	requiresTLS, requiresProxyHeader bool
	ignoresProxyHeader               bool // the address is named without the PROXY protocol
}

// status returns the status of requests on a connection that may not reach the hosts, or 0.
func (c *connectionRules) status(r *http.Request) int {
	switch {
	case c.requiresTLS && r.TLS == nil:
		return nginxstatus.ToHTTPS
	case c.requiresProxyHeader && proxyHeaderOf(r) == nil:
		return http.StatusBadRequest
	}
	return 0
}

type hostPattern struct {
	pattern *Pattern
	host    *host
}

func (g *hostGroup) hostFor(x *Exchange, name string) *host {
	if h := g.lookup(x, name); h != nil {
		return h
	}
	return g.defaultHost
}

// lookup returns the host with a name, or nil.
func (g *hostGroup) lookup(x *Exchange, name string) *host {
	if g.isSingle {
		return g.defaultHost
	}
	if h, ok := g.names.Find(name); ok {
		return h
	}
	for i := range g.patterns {
		if p := &g.patterns[i]; p.pattern.Match(x, name) {
			return p.host
		}
	}
	return nil
}
