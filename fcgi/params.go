package fcgi

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// describe sets all parameters that r and the Transport determine. length is that of the body, or
// -1 if it is unknown.
func (t *Transport) describe(p *Params, r *http.Request, length int64) error {
	if err := t.setScript(p, r.URL.Path); err != nil {
		return err
	}
	if err := setRequest(p, r, length); err != nil {
		return err
	}
	if err := setServer(p, r); err != nil {
		return err
	}
	setClient(p, r)
	for name, values := range r.Header {
		if err := p.SetField(name, values); err != nil {
			return err
		}
	}
	return nil
}

// setScript sets the parameters that the URL's path determines.
func (t *Transport) setScript(p *Params, path string) error {
	script, info, err := t.scriptAndPathInfo(cmp.Or(path, "/"))
	if err != nil {
		return fmt.Errorf("fcgi: %w in path %q", err, path)
	}
	if t.Root != "" {
		p.Set("SCRIPT_FILENAME", strings.TrimSuffix(t.Root, "/")+script)
		p.Set("DOCUMENT_ROOT", t.Root)
	}
	p.Set("SCRIPT_NAME", script)
	if info != "" { // an empty value means the same as none, and led to CVE-2019-11043 in php-fpm
		p.Set("PATH_INFO", info)
	}
	p.Set("DOCUMENT_URI", script+info)
	return nil
}

// scriptAndPathInfo splits a path into SCRIPT_NAME and PATH_INFO.
func (t *Transport) scriptAndPathInfo(path string) (script, info string, err error) {
	switch {
	case path[0] != '/':
		return "", "", errors.New("no slash at the start")
	case strings.ContainsFunc(path, isControl):
		return "", "", errors.New("control byte")
	case t.Root != "" && hasDotDot(path):
		return "", "", errors.New(`".." segment`)
	case t.Script != "":
		if rest, ok := strings.CutPrefix(path, t.Script); ok && (rest == "" || rest[0] == '/') {
			return t.Script, rest, nil
		}
		return t.Script, "", nil
	case t.Root == "":
		return "", path, nil
	}
	script, info = splitAfterSuffix(path, t.SplitPath)
	if strings.HasSuffix(script, "/") {
		script += cmp.Or(t.Index, defaultIndex)
	}
	return script, info, nil
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// hasDotDot reports whether a segment of the path is "..". A backslash also separates segments,
// because the application may run on Windows.
func hasDotDot(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if segment == ".." {
			return true
		}
	}
	return false
}

// splitAfterSuffix splits a path behind the first segment that ends with suffix.
func splitAfterSuffix(path, suffix string) (script, info string) {
	if suffix == "" {
		return path, ""
	}
	for at := 0; ; {
		i := strings.Index(path[at:], suffix)
		if i < 0 {
			return path, ""
		}
		if at += i + len(suffix); at == len(path) || path[at] == '/' {
			return path[:at], path[at:]
		}
	}
}

// setRequest sets the parameters of the request line and of the body.
func setRequest(p *Params, r *http.Request, length int64) error {
	method, target := cmp.Or(r.Method, http.MethodGet), r.URL.RequestURI()
	switch {
	case !http1.ValidToken(method):
		return fmt.Errorf("fcgi: invalid method %q", method)
	case method == http.MethodConnect:
		return errors.New("fcgi: unsupported method CONNECT")
	case r.URL.Opaque != "" || !http1.ValidTarget(target):
		return fmt.Errorf("fcgi: invalid request target %q", target)
	}
	p.Set("REQUEST_METHOD", method)
	p.Set("REQUEST_URI", target)
	p.Set("QUERY_STRING", r.URL.RawQuery)
	protocol := "HTTP/1.1"
	if r.ProtoMajor > 0 && r.ProtoMajor < 10 && r.ProtoMinor >= 0 && r.ProtoMinor < 10 {
		protocol = fmt.Sprintf("HTTP/%d.%d", r.ProtoMajor, r.ProtoMinor)
	}
	p.Set("SERVER_PROTOCOL", protocol)
	expected := method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
	if length > 0 || length == 0 && expected {
		p.Set("CONTENT_LENGTH", strconv.FormatInt(length, 10))
	}
	return nil
}

// setServer sets the parameters of the server's side: host, port, scheme and constants.
func setServer(p *Params, r *http.Request) error {
	host := withoutZone(cmp.Or(r.Host, r.URL.Host))
	if host != "" && !http1.ValidHost([]byte(host)) {
		return fmt.Errorf("fcgi: invalid host %q", host)
	}
	scheme, port := "http", "80"
	if r.TLS != nil || r.URL.Scheme == "https" {
		scheme, port = "https", "443"
		p.Set("HTTPS", "on")
	}
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && host[len(host)-1] != ']' {
		name, port = host[:i], cmp.Or(host[i+1:], port)
	}
	local := ""
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		local, port = a.IP.String(), strconv.Itoa(a.Port)
		p.Set("SERVER_ADDR", local)
	}
	if host != "" {
		p.Set("HTTP_HOST", host)
	}
	p.Set("SERVER_NAME", cmp.Or(name, local, "localhost"))
	p.Set("SERVER_PORT", port)
	p.Set("REQUEST_SCHEME", scheme)
	p.Set("SERVER_SOFTWARE", "tare")
	p.Set("GATEWAY_INTERFACE", "CGI/1.1")
	p.Set("REDIRECT_STATUS", "200") // php-cgi requires it
	return nil
}

// withoutZone removes the zone of an IPv6 address, which has a meaning on one machine only.
func withoutZone(host string) string {
	before, after, ok := strings.Cut(host, "]")
	if address, _, zoned := strings.Cut(before, "%"); ok && zoned && host[0] == '[' {
		return address + "]" + after
	}
	return host
}

// setClient sets the client's address if r is a server's request. It does not make up an address,
// because the application may trust that.
func setClient(p *Params, r *http.Request) {
	if r.RemoteAddr == "" {
		return
	}
	address, port, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address, port = r.RemoteAddr, ""
	}
	if _, err := netip.ParseAddr(address); err != nil {
		return
	}
	p.Set("REMOTE_ADDR", address)
	if port != "" {
		p.Set("REMOTE_PORT", port)
	}
}
