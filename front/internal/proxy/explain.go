package proxy

import (
	"strings"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/uri"
)

// Explain implements core.Content.
func (p *proxy) Explain(x *core.Exchange, e *core.Explanation) core.Outcome {
	to := p.target.text.Eval(x)
	pass, url, target := "proxy_pass", "http://"+to, p.uri.requestTarget(x, "")
	switch {
	case p.target.protocol == "fastcgi":
		pass, url, target = "fastcgi_pass", to, uri.WithQuery(x.Path, x.Args)
	case p.target.protocol == "scheme":
		url = to
	case p.target.usesTLS:
		url = "https://" + to
	}
	e.Add(x, "content", x.Loc.Pos, "%s %s: %s %s", pass, url, p.methodFor(x), target)
	if p.cache != nil {
		e.Add(x, "content", x.Loc.Pos, "from the cache %s, if it has a response", p.from.Cache.Zone)
	}
	if p.target.bound != nil {
		e.Add(x, "upstream", "", "%s: a handler of the program", to)
		return e.End(x)
	}
	for i := range e.Config.Upstreams {
		if u := &e.Config.Upstreams[i]; strings.EqualFold(u.Name, to) {
			var servers []string
			for _, s := range u.Servers {
				servers = append(servers, s.Addr)
			}
			e.Add(x, "upstream", u.Pos, "%s: %s", u.Name, strings.Join(servers, ", "))
		}
	}
	return e.End(x)
}
