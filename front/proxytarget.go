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
type proxyTarget struct {
	text      text
	hasScheme bool         // the text has one in front
	usesTLS   bool         // by TLS, unless the scheme tells
	isFastCGI bool         // by FastCGI
	group     *group       // nil if variables tell
	bound     http.Handler // likewise
	plan      *plan
	dynamic   *dynamicGroups // addresses that variables gave
	name      targetName     // if it is constant
}

// goalName is a goal as variables tell of it.
type targetName struct{ host, port string }

// destination is where one request goes.
type destination struct {
	group   *group
	bound   http.Handler
	rest    string // that a variable had behind the address
	usesTLS bool   // by TLS
}

// errNoScheme says that variables have given no URL.
var errNoScheme = errors.New("the URL begins neither with http:// nor with https://")

// passGoal compiles where a Pass leads.
func (c *compiler) proxyTarget(p *proxy, l *Location) (err error) {
	t, protocol := &p.target, l.Proxy.Protocol
	t.plan, t.hasScheme, t.usesTLS = c.plan, protocol == SchemeOfTo, protocol == HTTPS
	t.isFastCGI = protocol == FastCGI
	if t.text, err = c.text(l.Proxy.To); err != nil {
		return err
	}
	switch {
	case t.text.empty():
		return errors.New("it leads nowhere: want To")
	case t.text.constant() && t.hasScheme:
		return errors.New("the scheme of To is known: want HTTP or HTTPS, and To without it")
	case t.text.constant():
		t.name = t.nameOf(t.text.literal, schemePort(t.usesTLS))
		if t.bound = c.boundTo(t.text.literal); t.bound == nil && !c.resolvesLater(l.Proxy) {
			t.group, err = c.targetGroup(t.text.literal)
		}
	}
	if t.bound == nil && t.group == nil {
		t.dynamic = new(dynamicGroups)
		c.plan.releases = append(c.plan.releases, t.dynamic.close)
	}
	if err == nil && (t.usesTLS || t.hasScheme) && t.bound == nil {
		p.tls, err = c.tlsTransports(&l.Proxy.TLS, t.group)
	}
	return err
}

// findsLater reports whether a constant To is looked up when a request comes. As in nginx that is so if the rest of the URL has variables: the
// configuration is fine while nobody knows the name.
func (c *compiler) resolvesLater(p *Proxy) bool {
	addr := string(p.To)
	if p.URI == nil || !strings.Contains(string(*p.URI), "$") || c.plan.groups[strings.ToLower(addr)] != nil || strings.HasPrefix(addr, "unix:") {
		return false
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	_, err = netip.ParseAddr(host)
	return err != nil
}

// usualPort is the port where none is said.
func schemePort(secure bool) string {
	if secure {
		return "443"
	}
	return "80"
}

// nameOf is nameGoal for HTTP. FastCGI has neither variable.
func (g *proxyTarget) nameOf(addr, defaultPort string) targetName {
	if g.isFastCGI {
		return targetName{}
	}
	return targetNameOf(addr, defaultPort)
}

// nameGoal is what $proxy_host and $proxy_port are. A usual port is not told.
func targetNameOf(addr, defaultPort string) targetName {
	if strings.HasPrefix(addr, "unix:") {
		return targetName{"localhost", ""}
	}
	if i := strings.LastIndexByte(addr, ':'); i > strings.LastIndexByte(addr, ']') {
		if port := addr[i+1:]; port != defaultPort {
			return targetName{addr, port}
		}
		return targetName{addr[:i], defaultPort}
	}
	return targetName{addr, defaultPort}
}

// find finds where an exchange goes.
func (g *proxyTarget) resolve(x *exchange) (destination, error) {
	if x.proxyState == nil {
		x.proxyState = x.plan.state.acquireProxyState()
	}
	d := destination{group: g.group, usesTLS: g.usesTLS}
	if d.group != nil {
		x.target = g.name
		return d, nil
	}
	addr, err := g.text.eval(x), error(nil)
	if g.hasScheme {
		if addr, d.usesTLS, err = cutScheme(addr); err != nil {
			return d, err
		}
	}
	addr, d.rest = cutURI(addr)
	port := schemePort(d.usesTLS)
	x.target = g.nameOf(addr, port)
	if g.isFastCGI {
		port = "" // there is none
	}
	if d.bound = g.plan.options.boundTo(addr); d.bound != nil {
		return d, nil
	}
	if d.group = g.plan.group(addr, port); d.group == nil {
		d.group, err = g.dynamic.group(addr, port)
	}
	return d, err
}

// unfound is the status for a goal that cannot be found. As in nginx an address that is none is a fault of the configuration, and a name that
// nobody knows is not.
func targetErrorStatus(err error) int {
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
	return url, false, fmt.Errorf("%w: %q", errNoScheme, truncateLogged(url))
}

// cutURI splits what variables gave into an address and what is behind it.
func cutURI(text string) (addr, rest string) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		path, rest, _ = strings.Cut(path, ":")
		return "unix:" + path, rest
	}
	if i := strings.IndexAny(text, "/?"); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}
