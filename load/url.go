package load

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

type parsedURL struct {
	protocol protocol
	secure   bool   // over TLS
	host     string // value of the Host header field
	name     string // host without port
	port     string
	socket   string // path of a unix socket; empty for TCP

	target string // request target
	path   string // its path, decoded
	query  string
}

const wantURL = "want http://host:port/path or fcgi://host:port/path, https or fcgis for TLS, over a unix socket http+unix:///socket:/path and the like"

func parseURL(text string, version Version) (parsedURL, error) {
	u, err := url.Parse(text)
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err
		}
		return parsedURL{}, badPlan("%q: %s: %v", text, wantURL, err)
	}
	if u.User != nil {
		return parsedURL{}, badPlan("%q: user name and password in a URL are not sent: use an Authorization header field", u.Redacted())
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

// resolveURL returns the URL of a Request: its own, or its path on the Plan's server.
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

func (p *parsedURL) sameServer(o *parsedURL) bool {
	return p.protocol == o.protocol && p.secure == o.secure && p.name == o.name && p.port == o.port &&
		p.socket == o.socket
}

func (p *parsedURL) setHost(u *url.URL) error {
	if u.Hostname() == "" || !http1.ValidHost([]byte(u.Host)) {
		return errors.New(wantURL)
	}
	p.host, p.name, p.port = u.Host, u.Hostname(), cmp.Or(u.Port(), p.protocol.defaultPort(p.secure))
	return nil
}

const (
	maxSocketPath = 107         // longest path of a unix socket (unix(7))
	socketHost    = "localhost" // Host of requests over a unix socket, whose URL has none
)

// setSocket splits the path of u at the first colon, as nginx does: the socket's path before it,
// the request's path after it. It leaves the latter in u. A colon inside the socket's path is
// written %3A.
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
		return fmt.Errorf("invalid socket path %q: %s", socket, wantURL)
	case len(socket) > maxSocketPath:
		return fmt.Errorf("the socket's path has %d bytes: the system allows %d", len(socket), maxSocketPath)
	case path != "" && path[0] != '/':
		return fmt.Errorf("invalid request path %q: want a slash after the colon, and %%3A for a colon in the socket's path", path)
	}
	p.host, p.name, p.port, p.socket = socketHost, socketHost, p.protocol.defaultPort(p.secure), socket
	return nil
}
