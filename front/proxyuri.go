package front

import (
	"errors"
	"strings"
)

// uriRule is how the target of a request to an upstream is made.
type uriRule struct {
	text      *text  // nil leaves the client's
	isWhole   bool   // text is all of it
	prefixLen int    // length of the path that text replaces
	prefix    string // the location's path
}

// passURI compiles how targets are made.
func (c *compiler) proxyURI(p *proxy, l *Location) error {
	from := l.Proxy
	if from.URI == nil {
		return nil
	}
	if from.Protocol == FastCGI {
		return errors.New("FastCGI has no URI: parameters say it")
	}
	t, err := c.text(*from.URI)
	if err != nil {
		return err
	}
	r := &p.uri
	r.text, r.isWhole = &t, !t.constant() || !p.target.text.constant()
	switch l.Match {
	case Prefix, FinalPrefix, Exact:
		r.prefixLen, r.prefix = len(l.Path), l.Path
	default:
		if !r.isWhole {
			return errors.New("a URI replaces a part of the path only in a location that is one: leave it out, or use rewrite")
		}
	}
	if t.constant() && !strings.HasPrefix(t.literal, "/") && !strings.HasPrefix(t.literal, "?") {
		return errors.New("a URI begins with a slash")
	}
	return nil
}

// target is what an upstream is asked for: path and query. Without a URI, or with one that is empty this time, that is what the client has
// sent, byte by byte, unless it was rewritten. behind is what the address had behind it, which the URI goes on.
func (r *uriRule) requestTarget(x *exchange, rest string) string {
	uri := rest
	if r.isWhole {
		uri += r.text.eval(x)
	}
	switch {
	case uri != "":
		return withSlash(uri)
	case (r.text == nil || r.isWhole) && !x.uriChanged:
		return requestURI(x)
	case r.text == nil, r.isWhole, x.rewritten, !strings.HasPrefix(x.path, r.prefix):
		return withArgs(escapePath(x.path), x.args)
	}
	return withArgs(r.text.literal+escapePath(x.path[r.prefixLen:]), x.args)
}

// rooted has a target begin with a slash.
func withSlash(uri string) string {
	if strings.HasPrefix(uri, "/") {
		return uri
	}
	return "/" + uri
}
