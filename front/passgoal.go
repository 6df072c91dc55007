package front

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// goal is where a Pass leads.
type goal struct {
	text   text
	scheme bool         // the text has one in front
	secure bool         // by TLS, unless the scheme tells
	group  *group       // nil if variables tell
	bound  http.Handler // likewise
	plan   *plan
	other  *dynamic // addresses that variables gave
	name   goalName // if it is constant
}

// goalName is a goal as variables tell of it.
type goalName struct{ host, port string }

// destination is where one request goes.
type destination struct {
	group  *group
	bound  http.Handler
	uri    string // that a variable had behind the address
	secure bool   // by TLS
}

// errNoScheme says that variables have given no URL.
var errNoScheme = errors.New("the URL begins neither with http:// nor with https://")

// passGoal compiles where a Pass leads.
func (c *compiler) passGoal(p *pass, l *Location) (err error) {
	g, protocol := &p.to, l.Pass.Protocol
	g.plan, g.scheme, g.secure = c.plan, protocol == SchemeOfTo, protocol == HTTPS
	if g.text, err = c.text(l.Pass.To); err != nil {
		return err
	}
	switch {
	case g.text.empty():
		return errors.New("it leads nowhere: want To")
	case g.text.constant() && g.scheme:
		return errors.New("the scheme of To is known: want HTTP or HTTPS, and To without it")
	case g.text.constant():
		g.name = nameGoal(g.text.literal, usualPort(g.secure))
		if g.bound = c.boundTo(g.text.literal); g.bound == nil {
			g.group, err = c.target(g.text.literal)
		}
	default:
		g.other = new(dynamic)
		c.plan.releases = append(c.plan.releases, g.other.close)
	}
	if err == nil && (g.secure || g.scheme) && g.bound == nil {
		p.tls, err = c.tlsLinks(&l.Pass.TLS, g.group)
	}
	return err
}

// usualPort is the port where none is said.
func usualPort(secure bool) string {
	if secure {
		return "443"
	}
	return "80"
}

// nameGoal is what $proxy_host and $proxy_port are. A usual port is not told.
func nameGoal(to, usual string) goalName {
	if strings.HasPrefix(to, "unix:") {
		return goalName{"localhost", ""}
	}
	if i := strings.LastIndexByte(to, ':'); i > strings.LastIndexByte(to, ']') {
		if port := to[i+1:]; port != usual {
			return goalName{to, port}
		}
		return goalName{to[:i], usual}
	}
	return goalName{to, usual}
}

// find finds where an exchange goes.
func (g *goal) find(x *exchange) (destination, error) {
	if x.passing == nil {
		x.passing = x.plan.state.takePassing()
	}
	d := destination{group: g.group, secure: g.secure}
	if d.group != nil {
		x.goal = g.name
		return d, nil
	}
	to, err := g.text.of(x), error(nil)
	if g.scheme {
		if to, d.secure, err = cutScheme(to); err != nil {
			return d, err
		}
	}
	to, d.uri = cutURI(to)
	port := usualPort(d.secure)
	x.goal = nameGoal(to, port)
	if d.bound = g.plan.options.boundTo(to); d.bound != nil {
		return d, nil
	}
	if d.group = g.plan.groups[strings.ToLower(to)]; d.group == nil {
		d.group, err = g.other.group(to, port)
	}
	return d, err
}

// cutScheme takes the scheme from a URL.
func cutScheme(url string) (rest string, secure bool, err error) {
	scheme, rest, _ := strings.Cut(url, "://")
	switch strings.ToLower(scheme) {
	case "http":
		return rest, false, nil
	case "https":
		return rest, true, nil
	}
	return url, false, fmt.Errorf("%w: %q", errNoScheme, bounded(url))
}

// cutURI splits what variables gave into an address and what is behind it.
func cutURI(text string) (to, uri string) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		path, uri, _ = strings.Cut(path, ":")
		return "unix:" + path, uri
	}
	if i := strings.IndexAny(text, "/?"); i > 0 {
		return text[:i], text[i:]
	}
	return text, ""
}
