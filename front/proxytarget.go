package front

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// goal is where a Pass leads.
type goal struct {
	text   text
	scheme bool         // the text has one in front
	secure bool         // by TLS, unless the scheme tells
	cgi    bool         // by FastCGI
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
	g, protocol := &p.to, l.Proxy.Protocol
	g.plan, g.scheme, g.secure = c.plan, protocol == SchemeOfTo, protocol == HTTPS
	g.cgi = protocol == FastCGI
	if g.text, err = c.text(l.Proxy.To); err != nil {
		return err
	}
	switch {
	case g.text.empty():
		return errors.New("it leads nowhere: want To")
	case g.text.constant() && g.scheme:
		return errors.New("the scheme of To is known: want HTTP or HTTPS, and To without it")
	case g.text.constant():
		g.name = g.nameOf(g.text.literal, usualPort(g.secure))
		if g.bound = c.boundTo(g.text.literal); g.bound == nil && !c.findsLater(l.Proxy) {
			g.group, err = c.target(g.text.literal)
		}
	}
	if g.bound == nil && g.group == nil {
		g.other = new(dynamic)
		c.plan.releases = append(c.plan.releases, g.other.close)
	}
	if err == nil && (g.secure || g.scheme) && g.bound == nil {
		p.tls, err = c.tlsLinks(&l.Proxy.TLS, g.group)
	}
	return err
}

// findsLater reports whether a constant To is looked up when a request comes. As in nginx that is so if the rest of the URL has variables: the
// configuration is fine while nobody knows the name.
func (c *compiler) findsLater(p *Proxy) bool {
	to := string(p.To)
	if p.URI == nil || !strings.Contains(string(*p.URI), "$") || c.plan.groups[strings.ToLower(to)] != nil || strings.HasPrefix(to, "unix:") {
		return false
	}
	host, _, err := net.SplitHostPort(to)
	if err != nil {
		host = strings.Trim(to, "[]")
	}
	_, err = netip.ParseAddr(host)
	return err != nil
}

// usualPort is the port where none is said.
func usualPort(secure bool) string {
	if secure {
		return "443"
	}
	return "80"
}

// nameOf is nameGoal for HTTP. FastCGI has neither variable.
func (g *goal) nameOf(to, usual string) goalName {
	if g.cgi {
		return goalName{}
	}
	return nameGoal(to, usual)
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
	x.goal = g.nameOf(to, port)
	if g.cgi {
		port = "" // there is none
	}
	if d.bound = g.plan.options.boundTo(to); d.bound != nil {
		return d, nil
	}
	if d.group = g.plan.group(to, port); d.group == nil {
		d.group, err = g.other.group(to, port)
	}
	return d, err
}

// unfound is the status for a goal that cannot be found. As in nginx an address that is none is a fault of the configuration, and a name that
// nobody knows is not.
func unfound(err error) int {
	var unknown *net.DNSError
	if errors.As(err, &unknown) || errors.Is(err, errClosed) {
		return http.StatusBadGateway
	}
	return http.StatusInternalServerError
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
	if i := strings.IndexAny(text, "/?"); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}
