package load

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// place is what a URL says.
type parsedURL struct {
	protocol protocol
	secure   bool   // over TLS
	host     string // as the Host field has it
	name     string // of the host, without port
	port     string
	socket   string // the path of a unix socket; empty for TCP

	target string // as a request line has it
	path   string // of it, decoded
	query  string
}

const wantURL = "want http://host:port/path or fcgi://host:port/path, https or fcgis for TLS, over a unix socket http+unix:///socket:/path and the like"

// parseURL takes a plan's URL apart.
func parseURL(text string, version Version) (parsedURL, error) {
	u, err := url.Parse(text)
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err
		}
		return parsedURL{}, badPlan("%q: %s: %v", text, wantURL, err)
	}
	if u.User != nil {
		return parsedURL{}, badPlan("%q: a name and password in the URL are not sent: use an Authorization header", u.Redacted())
	}
	scheme, isUnix := strings.CutSuffix(u.Scheme, "+unix")
	var p parsedURL
	switch scheme {
	case "http", "https":
		p.protocol = version.protocol()
	case "fcgi", "fcgis":
		p.protocol = fcgiProtocol{}
	}
	p.secure = strings.HasSuffix(scheme, "s")
	if p.protocol == nil || u.Opaque != "" || isUnix != (u.Host == "") {
		return parsedURL{}, badPlan("%q: %s", text, wantURL)
	}
	if isUnix {
		err = p.setSocket(u)
	} else {
		err = p.setHost(u)
	}
	if err != nil {
		return parsedURL{}, badPlan("%q: %v", text, err)
	}
	p.target, p.path, p.query = u.RequestURI(), u.Path, u.RawQuery
	if p.path == "" {
		p.path = "/"
	}
	return p, nil
}

// against returns a URL of the list: all of it, or a path on the plan's server.
func resolveURL(plan, own string) string {
	if own == "" || !strings.HasPrefix(own, "/") {
		return cmp.Or(own, plan)
	}
	scheme, rest, _ := strings.Cut(plan, "://")
	if strings.HasSuffix(scheme, "+unix") {
		socket, _, _ := strings.Cut(rest, ":")
		return scheme + "://" + socket + ":" + own
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return scheme + "://" + rest + own
}

// sameServer reports whether two places differ only in what is asked for there.
func (p *parsedURL) sameServer(o *parsedURL) bool {
	return p.protocol == o.protocol && p.secure == o.secure && p.name == o.name && p.port == o.port && p.socket == o.socket
}

func (p *parsedURL) setHost(u *url.URL) error {
	if u.Hostname() == "" || !http1.ValidHost([]byte(u.Host)) {
		return errors.New(wantURL)
	}
	p.host, p.name, p.port = u.Host, u.Hostname(), cmp.Or(u.Port(), p.protocol.defaultPort(p.secure))
	return nil
}

const (
	// maxSocketPath is what a unix socket's address has room for (unix(7)).
	maxSocketPath = 107
	// socketHost is what a request over a unix socket is sent to: such a URL has no host.
	socketHost = "localhost"
)

// setSocket takes the path of u apart, as nginx does: that of a socket and, after a colon,
// that of the request, which u then has. A colon of the socket's own is written %3A.
func (p *parsedURL) setSocket(u *url.URL) error {
	socket, path, _ := strings.Cut(u.EscapedPath(), ":")
	socket, err := url.PathUnescape(socket)
	if err == nil {
		u.RawPath = path
		u.Path, err = url.PathUnescape(path)
	}
	switch {
	case err != nil:
		return err
	case socket == "" || strings.HasSuffix(socket, "/") || strings.Contains(socket, "\x00"):
		return fmt.Errorf("%q is no path of a socket: %s", socket, wantURL)
	case len(socket) > maxSocketPath:
		return fmt.Errorf("the socket's path has %d bytes, more than the system's %d", len(socket), maxSocketPath)
	case path != "" && path[0] != '/':
		return fmt.Errorf("%q is no path of a request: want a slash after the colon, and %%3A for one in the socket's path", path)
	}
	p.host, p.name, p.port, p.socket = socketHost, socketHost, p.protocol.defaultPort(p.secure), socket
	return nil
}
