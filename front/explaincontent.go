package front

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/files"
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
	switch inner := e.inner.(type) {
	case *proxy:
		e.proxy(x, inner)
	case *boundHandler:
		e.proxy(x, inner.proxy)
	case *fileSet:
		return e.file(x, inner)
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

// file adds a finding about a file, and responds as the file set does, but without content.
func (e *explainedContent) file(x *exchange, f *fileSet) outcome {
	name, ok := f.fullName(x, x.path)
	text := map[files.Kind]string{
		files.File: "the file %s", files.Directory: "the directory %s", files.Denied: "%s, which must not be read",
		files.Nothing: "%s, which does not exist",
	}[f.kind(x, x.path)]
	if !ok {
		text = "no file: there is no root"
	} else {
		text = fmt.Sprintf(text, name)
	}
	at := len(e.explanation.findings)
	e.explanation.add(x, "content", e.from.Pos, "%s", text)
	out := e.head(x, f)
	if out == relocate {
		text = fmt.Sprintf("; its index is %s", uri.WithQuery(x.path, x.args))
		if x.errorStatus != 0 {
			text = fmt.Sprintf(": rejects the request with %d; the error page is %s", x.errorStatus,
				uri.WithQuery(x.path, x.args))
		}
		e.explanation.findings[at].Text += text
		return relocate
	}
	e.explanation.hasContent = e.explanation.hasContent || x.parent == nil
	return out
}

// head serves files to a GET as to a HEAD.
func (e *explainedContent) head(x *exchange, f *fileSet) outcome {
	if x.method != http.MethodGet {
		return f.serve(x)
	}
	received := x.r
	if received.Method == http.MethodGet {
		r := *received
		r.Method, x.r = http.MethodHead, &r
	}
	x.method = http.MethodHead
	out := f.serve(x)
	x.r, x.method = received, http.MethodGet
	return out
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
