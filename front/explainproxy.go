package front

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/uri"
)

// explain implements content.
func (p *proxy) explain(x *exchange, e *explanation) outcome {
	p.addFindings(x, e)
	return e.end(x)
}

// explain implements content.
func (b *boundHandler) explain(x *exchange, e *explanation) outcome { return b.proxy.explain(x, e) }

// addFindings adds findings about a request to an upstream.
func (p *proxy) addFindings(x *exchange, e *explanation) {
	to := p.target.text.eval(x)
	method := p.method.eval(x)
	if method == "" {
		method = x.method
	}
	switch {
	case p.target.isFastCGI:
		e.add(x, "content", x.loc.pos, "fastcgi_pass %s: %s %s", to, method, uri.WithQuery(x.path, x.args))
	case p.target.hasScheme:
		e.add(x, "content", x.loc.pos, "proxy_pass %s: %s %s", to, method, p.uri.requestTarget(x, ""))
	default:
		scheme := "http"
		if p.target.usesTLS {
			scheme = "https"
		}
		e.add(x, "content", x.loc.pos, "proxy_pass %s://%s: %s %s", scheme, to, method,
			p.uri.requestTarget(x, ""))
	}
	if p.cache != nil {
		e.add(x, "content", x.loc.pos, "from the cache %s, if it has a response", p.from.Cache.Zone)
	}
	if p.target.bound != nil {
		e.add(x, "upstream", "", "%s: a handler of the program", to)
		return
	}
	for i := range e.config.Upstreams {
		if u := &e.config.Upstreams[i]; strings.EqualFold(u.Name, to) {
			e.add(x, "upstream", u.Pos, "%s: %s", u.Name, describeServers(u))
		}
	}
}

// describeServers describes a group of upstream servers.
func describeServers(u *conf.Upstream) string {
	var all []string
	for _, s := range u.Servers {
		text := s.Addr
		if s.Weight > 1 {
			text += fmt.Sprintf(" weight=%d", s.Weight)
		}
		if s.Backup {
			text += " backup"
		}
		if s.Down {
			text += " down"
		}
		all = append(all, text)
	}
	if method := u.Balance.Method; method != "" && len(all) > 1 {
		for _, arg := range u.Balance.Args {
			method += " " + string(arg)
		}
		return "one of " + strings.Join(all, ", ") + " by " + method
	}
	if len(all) > 1 {
		return "one of " + strings.Join(all, ", ") + " in turns"
	}
	return strings.Join(all, ", ")
}
