package fcgi

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	wire "github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// Params are the parameters of a request to an application: names and values, each name once.
type Params struct {
	text  []byte // names and values, and what was replaced
	pairs []wire.Pair
}

// Get returns a parameter's value, or "" if there is none.
func (p *Params) Get(name string) string {
	if i := p.find([]byte(name)); i >= 0 {
		return string(p.pairs[i].Value.In(p.text))
	}
	return ""
}

// Set sets a parameter, in place of the one that has this name.
func (p *Params) Set(name, value string) {
	at := len(p.text)
	p.text = append(p.text, name...)
	mid := len(p.text)
	p.text = append(p.text, value...)
	p.put(at, mid)
}

// Del removes a parameter.
func (p *Params) Del(name string) {
	if i := p.find([]byte(name)); i >= 0 {
		p.pairs = slices.Delete(p.pairs, i, i+1)
	}
}

// All yields all parameters.
func (p *Params) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, pair := range p.pairs {
			if !yield(string(pair.Name.In(p.text)), string(pair.Value.In(p.text))) {
				return
			}
		}
	}
}

func (p *Params) find(name []byte) int {
	return slices.IndexFunc(p.pairs, func(pair wire.Pair) bool { return string(pair.Name.In(p.text)) == string(name) })
}

// put sets a parameter from text that was appended: the name from at to mid, the value behind.
func (p *Params) put(at, mid int) {
	pair := wire.Pair{Name: span(at, mid), Value: span(mid, len(p.text))}
	if i := p.find(p.text[at:mid]); i >= 0 {
		p.pairs[i] = pair
		return
	}
	p.pairs = append(p.pairs, pair)
}

func span(start, end int) http1.Span { return http1.Span{Start: uint32(start), End: uint32(end)} }

// appendTo appends the list as it is sent.
func (p *Params) appendTo(b []byte) []byte {
	for _, pair := range p.pairs {
		b = wire.AppendPair(b, pair.Name.In(p.text), pair.Value.In(p.text))
	}
	return b
}

// describe sets all that r and the transport say. length is that of the body, or -1 if it is not
// known.
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
		if err := setField(p, name, values); err != nil {
			return err
		}
	}
	return nil
}

// setScript sets what the URL's path means to the application.
func (t *Transport) setScript(p *Params, path string) error {
	script, info, err := t.locate(cmp.Or(path, "/"))
	if err != nil {
		return fmt.Errorf("fcgi: %w in the path %q", err, path)
	}
	if t.Root != "" {
		p.Set("SCRIPT_FILENAME", strings.TrimSuffix(t.Root, "/")+script)
		p.Set("DOCUMENT_ROOT", t.Root)
	}
	p.Set("SCRIPT_NAME", script)
	if info != "" { // an empty one is the same as none, and has been the undoing of php-fpm (CVE-2019-11043)
		p.Set("PATH_INFO", info)
	}
	p.Set("DOCUMENT_URI", script+info)
	return nil
}

// locate splits a path into SCRIPT_NAME and PATH_INFO.
func (t *Transport) locate(path string) (script, info string, err error) {
	switch {
	case path[0] != '/':
		return "", "", errors.New("no slash at the start")
	case strings.ContainsFunc(path, isControl):
		return "", "", errors.New("control byte")
	case t.Root != "" && climbs(path):
		return "", "", errors.New(`".." segment`)
	case t.Script != "":
		if rest, ok := strings.CutPrefix(path, t.Script); ok && (rest == "" || rest[0] == '/') {
			return t.Script, rest, nil
		}
		return t.Script, "", nil
	case t.Root == "":
		return "", path, nil
	}
	script, info = split(path, t.SplitPath)
	if strings.HasSuffix(script, "/") {
		script += cmp.Or(t.Index, defaultIndex)
	}
	return script, info, nil
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// climbs reports whether a segment of the path is "..". Backslashes separate segments where
// the application runs on Windows.
func climbs(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if segment == ".." {
			return true
		}
	}
	return false
}

// split splits a path behind the first segment that ends with suffix.
func split(path, suffix string) (script, info string) {
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

// setRequest sets what was asked for.
func setRequest(p *Params, r *http.Request, length int64) error {
	method, target := cmp.Or(r.Method, http.MethodGet), r.URL.RequestURI()
	switch {
	case !http1.ValidToken(method):
		return fmt.Errorf("fcgi: malformed method %q", method)
	case method == http.MethodConnect:
		return errors.New("fcgi: FastCGI has no CONNECT")
	case r.URL.Opaque != "" || !http1.ValidTarget(target):
		return fmt.Errorf("fcgi: %q cannot be a request target", target)
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

// setServer sets what was asked, and how.
func setServer(p *Params, r *http.Request) error {
	host := withoutZone(cmp.Or(r.Host, r.URL.Host))
	if host != "" && !http1.ValidHost([]byte(host)) {
		return fmt.Errorf("fcgi: malformed host %q", host)
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
	p.Set("REDIRECT_STATUS", "200") // php-cgi does not run without
	return nil
}

// withoutZone removes the zone of an IPv6 address, which means something on one machine only.
func withoutZone(host string) string {
	before, after, ok := strings.Cut(host, "]")
	if address, _, zoned := strings.Cut(before, "%"); ok && zoned && host[0] == '[' {
		return address + "]" + after
	}
	return host
}

// setClient sets who asked, if r is a server's request. An address that is made up could be one
// that the application trusts.
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

// setField sets what a field of the header becomes.
func setField(p *Params, name string, values []string) error {
	if !http1.ValidToken(name) {
		return fmt.Errorf("fcgi: malformed field name %q", name)
	}
	for _, v := range values {
		if !http1.ValidValue(v) {
			return fmt.Errorf("fcgi: malformed value of the field %q", name)
		}
	}
	between := ", "
	canonical := http.CanonicalHeaderKey(name)
	switch canonical {
	case "Content-Type":
		if len(values) > 0 {
			p.Set("CONTENT_TYPE", values[0])
		}
		return nil
	case "Proxy", // some programs take HTTP_PROXY for a setting
		"Content-Length", "Host", // told of elsewhere
		"Expect": // is met
		return nil
	case "User-Agent":
		if len(values) == 1 && values[0] == "" { // as net/http understands it
			return nil
		}
	case "Cookie":
		between = "; "
	}
	if len(values) == 0 || concernsConnection(canonical) || !becomesVariable(name) {
		return nil
	}
	p.setVariable(name, values, between)
	return nil
}

// concernsConnection reports whether a field means nothing beyond its connection.
func concernsConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// becomesVariable reports whether no other name becomes the same parameter. PHP turns a dot
// into '_', too.
func becomesVariable(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// setVariable sets the parameter that a field becomes (RFC 3875, 4.1.18).
func (p *Params) setVariable(name string, values []string, between string) {
	at := len(p.text)
	p.text = append(p.text, "HTTP_"...)
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '-':
			c = '_'
		case 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		p.text = append(p.text, c)
	}
	mid := len(p.text)
	for i, v := range values {
		if i > 0 {
			p.text = append(p.text, between...)
		}
		p.text = append(p.text, v...)
	}
	p.put(at, mid)
}
