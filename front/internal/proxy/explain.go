package proxy

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/uri"
)

// Explain implements core.Content.
func (p *proxy) Explain(x *core.Exchange, e *core.Explanation) core.Outcome {
	p.addFindings(x, e)
	return e.End(x)
}

func (p *proxy) addFindings(x *core.Exchange, e *core.Explanation) {
	to := p.target.text.Eval(x)
	method := p.methodFor(x)
	switch {
	case p.target.isFastCGI:
		e.Add(x, "content", x.Loc.Pos, "fastcgi_pass %s: %s %s", to, method, uri.WithQuery(x.Path, x.Args))
	case p.target.hasScheme:
		e.Add(x, "content", x.Loc.Pos, "proxy_pass %s: %s %s", to, method, p.uri.requestTarget(x, ""))
	default:
		scheme := "http"
		if p.target.usesTLS {
			scheme = "https"
		}
		e.Add(x, "content", x.Loc.Pos, "proxy_pass %s://%s: %s %s", scheme, to, method,
			p.uri.requestTarget(x, ""))
	}
	if p.cache != nil {
		e.Add(x, "content", x.Loc.Pos, "from the cache %s, if it has a response", p.from.Cache.Zone)
	}
	if p.target.bound != nil {
		e.Add(x, "upstream", "", "%s: a handler of the program", to)
		return
	}
	for i := range e.Config.Upstreams {
		if u := &e.Config.Upstreams[i]; strings.EqualFold(u.Name, to) {
			e.Add(x, "upstream", u.Pos, "%s: %s", u.Name, describeServers(u))
		}
	}
}

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
