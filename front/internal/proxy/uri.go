package proxy

import (
	"errors"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/uri"
)

// uriRule makes the target of upstream requests.
type uriRule struct {
	text    *core.Text // nil keeps the client's
	isWhole bool       // text is the whole target
	prefix  string     // the location's path, which text replaces
}

func compileURI(c *core.Compiler, p *proxy, l *conf.Location) error {
	from := l.Proxy
	if from.URI == nil {
		return nil
	}
	if from.Protocol == "fastcgi" {
		return errors.New("URI requires HTTP: FastCGI has parameters")
	}
	t := c.Text("proxy URI", *from.URI)
	r := &p.uri
	r.text, r.isWhole = &t, !t.Constant() || !p.target.text.Constant()
	switch l.Match {
	case "", "^~", "=":
		r.prefix = l.Path
	default:
		if !r.isWhole {
			return errors.New("a URI without variables requires a location with a path: remove the URI, or use rewrite")
		}
	}
	if t.Constant() && !strings.HasPrefix(t.Literal, "/") && !strings.HasPrefix(t.Literal, "?") {
		return errors.New("URI must begin with a slash")
	}
	return nil
}

// requestTarget returns the target of an upstream request: path and query. Without a URI, or with
// an empty one, it is the client's, unchanged unless it was rewritten. rest is what followed the
// address in a variable, and URI is appended to it.
func (r *uriRule) requestTarget(x *core.Exchange, rest string) string {
	target := rest
	if r.isWhole {
		target += r.text.Eval(x)
	}
	switch {
	case target != "": // a capture may have decoded spaces, which nginx sends
		return "/" + strings.ReplaceAll(strings.TrimPrefix(target, "/"), " ", "%20")
	case (r.text == nil || r.isWhole) && !x.URIChanged:
		return core.RequestURI(x)
	case r.text == nil, r.isWhole, x.PathRewritten, !strings.HasPrefix(x.Path, r.prefix):
		return uri.WithQuery(uri.EscapePath(x.Path), x.Args)
	}
	return uri.WithQuery(r.text.Literal+uri.EscapePath(x.Path[len(r.prefix):]), x.Args)
}
