package front

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/uri"
)

// explainContent replaces content by what adds findings about it.
func (c *compiler) explainContent(inner content, from *conf.Location) content {
	if c.options.explain == nil {
		return inner
	}
	return &explainedContent{c.options.explain, inner, from}
}

// explainedContent is content that is not run.
type explainedContent struct {
	explanation *explanation
	inner       content
	from        *conf.Location
}

// serve implements content.
func (e *explainedContent) serve(x *exchange) outcome {
	if a := &x.loc.access; x.parent == nil && (a.deny != nil || a.password != nil || a.request != nil) {
		e.explanation.add(x, "access", e.from.Pos, "is granted")
	}
	switch inner := e.inner.(type) {
	case *proxy:
		e.proxy(x, inner)
	case *boundHandler:
		e.proxy(x, inner.proxy)
	case *fileSet:
		if name, ok := inner.fullName(x, x.path); ok {
			e.explanation.add(x, "content", e.from.Pos, "the file %s", name)
		} else {
			e.explanation.add(x, "content", e.from.Pos, "no file: there is no root")
		}
	default:
		text := "an empty image"
		if e.from.Status {
			text = "the page of stub_status"
		} else if e.from.Metrics {
			text = "the page of metrics"
		}
		e.explanation.add(x, "content", e.from.Pos, "%s", text)
	}
	if x.parent == nil {
		e.explanation.hasContent = true
	}
	x.w.WriteHeader(http.StatusOK)
	return responded
}

// proxy adds findings about a request to an upstream.
func (e *explainedContent) proxy(x *exchange, p *proxy) {
	to := p.target.text.eval(x)
	method := p.method.eval(x)
	if method == "" {
		method = x.method
	}
	switch {
	case p.target.isFastCGI:
		e.explanation.add(x, "content", e.from.Pos, "fastcgi_pass %s: %s %s", to, method, uri.WithQuery(x.path, x.args))
	case p.target.hasScheme:
		e.explanation.add(x, "content", e.from.Pos, "proxy_pass %s: %s %s", to, method, p.uri.requestTarget(x, ""))
	default:
		scheme := "http"
		if p.target.usesTLS {
			scheme = "https"
		}
		e.explanation.add(x, "content", e.from.Pos, "proxy_pass %s://%s: %s %s", scheme, to, method,
			p.uri.requestTarget(x, ""))
	}
	if p.cache != nil {
		e.explanation.add(x, "content", e.from.Pos, "from the cache %s, if it has a response", p.from.Cache.Zone)
	}
	if p.target.bound != nil {
		e.explanation.add(x, "upstream", "", "%s: a handler of the program", to)
		return
	}
	for i := range e.explanation.config.Upstreams {
		if u := &e.explanation.config.Upstreams[i]; strings.EqualFold(u.Name, to) {
			e.explanation.add(x, "upstream", u.Pos, "%s: %s", u.Name, describeServers(u))
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
