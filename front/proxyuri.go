package front

import (
	"errors"
	"strings"
)

// uriRule is how the target of a request to an upstream is made.
type uriRule struct {
	text   *text  // nil leaves the client's
	whole  bool   // text is all of it
	part   int    // length of the path that text replaces
	prefix string // the location's path
}

// passURI compiles how targets are made.
func (c *compiler) passURI(p *pass, l *Location) error {
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
	r.text, r.whole = &t, !t.constant() || !p.to.text.constant()
	switch l.Match {
	case Prefix, FinalPrefix, Exact:
		r.part, r.prefix = len(l.Path), l.Path
	default:
		if !r.whole {
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
func (r *uriRule) target(x *exchange, behind string) string {
	uri := behind
	if r.whole {
		uri += r.text.of(x)
	}
	switch {
	case uri != "":
		return rooted(uri)
	case (r.text == nil || r.whole) && !x.changed:
		return requestURI(x)
	case r.text == nil, r.whole, x.rewritten, !strings.HasPrefix(x.path, r.prefix):
		return withArgs(escapePath(x.path), x.args)
	}
	return withArgs(r.text.literal+escapePath(x.path[r.part:]), x.args)
}

// rooted has a target begin with a slash.
func rooted(uri string) string {
	if strings.HasPrefix(uri, "/") {
		return uri
	}
	return "/" + uri
}
