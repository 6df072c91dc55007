package front

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/cache"
	"github.com/tarehq/tare/front/upstream"
	"github.com/tarehq/tare/internal/roundtrip"
)

// requestHeader is the header of requests to upstreams by HTTP.
type requestHeader struct {
	fields []setField
	sets   map[string]bool // names that fields have: what clients say under them goes no further
	host   *text           // nil is the goal's
	// connection and upgrade are what is said of them; nil is nothing.
	connection, upgrade *text
	keeps               bool // HTTP 1.1 is wanted
	none                bool // of the client's
}

// setField is a Field, compiled.
type setField struct {
	name  string
	value text
}

// requestHeader compiles it.
func (c *compiler) requestHeader(h *requestHeader, from *Pass) error {
	switch from.Version {
	case "", "1.0":
	case "1.1":
		h.keeps = true
	default:
		return fmt.Errorf("HTTP %q is not spoken to upstreams: want 1.0 or 1.1", from.Version)
	}
	h.none = from.NoHeader
	h.sets = make(map[string]bool)
	for _, f := range from.Header {
		name := http.CanonicalHeaderKey(f.Name)
		if !validToken(name) {
			return fmt.Errorf("the field name %q is none", f.Name)
		}
		value, err := c.text(f.Value)
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		if value.constant() && !httpguts.ValidHeaderFieldValue(value.literal) {
			return fmt.Errorf("field %s: the value %q cannot be sent", name, value.literal)
		}
		if err := h.set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// set has a field be sent in place of the client's.
func (h *requestHeader) set(name string, value text) error {
	switch name {
	case "Host":
		if h.host = &value; value.empty() {
			h.host = nil // there is no request without one in HTTP 1.1
		}
		return nil
	case "Connection":
		h.connection = &value
		return nil
	case "Upgrade":
		h.upgrade = &value
		return nil
	case "Content-Length", "Transfer-Encoding", "Keep-Alive", "Te", "Trailer", "Expect":
		if value.empty() {
			return nil
		}
		return fmt.Errorf("the field %s says where a request ends, or how it is sent, which is not for the Config to say", name)
	}
	if h.sets[name] = true; !value.empty() {
		h.fields = append(h.fields, setField{name, value})
	}
	return nil
}

// request is what an upstream is asked: it has nothing of the exchange but what never changes.
type request struct {
	method, target, host string
	header               http.Header
	body                 *requestBody
	keep                 bool // the connection is to be used again
	twice                bool // it may be sent again after a server has received it
	params               []cgiParam
	fields               fieldNames // of the client's that parameters are made of
}

// make makes the request of an exchange.
func (p *pass) make(x *exchange, q *request, to destination, ask *cache.OriginRequest) {
	q.method, q.target, q.body = x.method, p.uri.target(x, to.uri), p.bodyOf(x)
	if ask != nil && ask.Method != x.method {
		q.method = ask.Method // HEAD became GET, so that the answer can be kept
	} else if m := p.method.of(x); m != "" {
		q.method = m
	}
	q.twice = p.mayRepeat(x.method, q)
	if p.cgi != nil {
		p.cgi.make(x, q, ask)
		q.keep = p.from.KeepConn
		return
	}
	q.host = x.goal.host
	if p.sets.host != nil {
		if host := p.sets.host.of(x); host != "" {
			q.host = host
		}
	}
	if ask == nil && !p.sets.none && len(p.sets.fields) == 0 && !p.sets.changes(x, x.r.Header) {
		q.header = x.r.Header // a client only reads it, and only until there is an answer
		q.keep = p.sets.keeping(x)
		return
	}
	q.header = p.sets.of(x, q)
	if ask != nil {
		ask.Apply(q.header)
	}
}

// of makes the header of a request.
func (h *requestHeader) of(x *exchange, q *request) http.Header {
	from := x.r.Header
	header := make(http.Header, len(from)+len(h.fields))
	if !h.none {
		copyRequestFields(header, from, h.sets, x.host.fields)
	}
	h.fill(x, header)
	h.setConnection(x, header, q)
	return header
}

// fill adds the fields that are set.
func (h *requestHeader) fill(x *exchange, header http.Header) {
	for i := range h.fields {
		f := &h.fields[i]
		value := f.value.of(x)
		if !f.value.constant() {
			value = x.sendable(f.name, value)
		}
		if value != "" {
			header[f.name] = append(header[f.name], value)
		}
	}
}

// setConnection says what is to become of the connection. It is switched to another protocol only if both the Config and the
// client want that, and never to HTTP/2.
func (h *requestHeader) setConnection(x *exchange, header http.Header, q *request) {
	q.keep = h.keeping(x)
	if h.connection == nil || h.upgrade == nil {
		return
	}
	connection := []string{h.connection.of(x)}
	if !hasToken(connection, "upgrade") || !wantsUpgrade(x.r) {
		return
	}
	protocol := h.upgrade.of(x)
	if protocol == "" || !httpguts.ValidHeaderFieldValue(protocol) || hasToken([]string{protocol}, "h2c") {
		return
	}
	header["Connection"], header["Upgrade"] = []string{"Upgrade"}, []string{protocol}
}

// keeping reports whether the connection is to be used again: not if it is left to nginx's usual "close".
func (h *requestHeader) keeping(x *exchange) bool {
	return h.keeps && h.connection != nil && (h.connection.empty() || !hasToken([]string{h.connection.of(x)}, "close"))
}

// wantsUpgrade reports whether a client wants to speak another protocol: RFC 9110, 7.8.
func wantsUpgrade(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ProtoMinor == 1 && len(r.Header["Upgrade"]) > 0 && hasToken(r.Header["Connection"], "upgrade") && !hasToken(r.Header["Upgrade"], "h2c")
}

// copyRequestFields copies what a client has sent, but for fields that are set, that concern its connection alone, or that others
// could be mistaken for.
func copyRequestFields(to, from http.Header, sets map[string]bool, names fieldNames) {
	dropped := from["Connection"]
	for name, values := range from {
		switch {
		case sets[name], !names.pass(name), roundtrip.ConcernsConnection(name):
		case name == "Content-Length", name == "Expect":
		case dropped != nil && hasToken(dropped, name) && !tellsOfClient(name):
		default:
			to[name] = values[:len(values):len(values)]
		}
	}
}

// tellsOfClient reports whether a field is one that proxies tell of clients by. No client has it dropped by naming it in
// Connection.
func tellsOfClient(name string) bool {
	return strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" || name == "X-Real-Ip"
}

// hasToken reports whether a list has an element, in any case.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for v != "" {
			var element string
			element, v, _ = strings.Cut(v, ",")
			if strings.EqualFold(strings.Trim(element, " \t"), token) {
				return true
			}
		}
	}
	return false
}

// balance is what servers are chosen by for an exchange.
func (g *group) balance(x *exchange) (key string, client netip.Addr) {
	if g.peers.Config().Balance == upstream.IPHash {
		client = x.who().addr.Addr()
	}
	return g.key.of(x), client
}
