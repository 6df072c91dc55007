package front

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/cache"
	"github.com/tarehq/tare/internal/roundtrip"
)

// cacheKey is what a cache finds the responses to a request by.
type cacheKey struct {
	text    text
	target  bool // the upstream request's target follows
	suffix  text // and then this
	hasBody bool // $request_body is in it
	// hasAuthorization says that the key tells apart all values of Authorization that the upstream gets.
	hasAuthorization bool
}

// cacheKey compiles the key of a Pass. As in nginx the usual one has the target of the upstream request, not that of the client's: after a
// rewrite or an internal redirect they are different resources. nginx's does not tell the hosts of requests apart, not even if the
// upstream gets them: two hosts of one upstream would share their responses. Here the Host that is sent belongs to it.
func (c *compiler) cacheKey(p *Pass) (key cacheKey, err error) {
	from := p.Cache.Key
	switch {
	case from != "":
	case p.Protocol == FastCGI:
		return key, errors.New("the cache has no key: FastCGI has no usual one, $scheme$request_method$host$request_uri may do")
	default:
		from, key.target = "$scheme$proxy_host", true
		var suffix Text
		for _, f := range p.Header {
			if strings.EqualFold(f.Name, "Host") && strings.Contains(string(f.Value), "$") && f.Value != "$proxy_host" {
				suffix += " " + f.Value
			}
		}
		if key.suffix, err = c.text(suffix); err != nil {
			return key, err
		}
	}
	key.hasAuthorization = tellsAuthorization(p, from)
	key.hasBody = slices.Contains(variablesOf(from), "request_body")
	key.text, err = c.text(from)
	return key, err
}

// of is the key of a request.
func (k *cacheKey) of(x *exchange, o *origin) string {
	if !k.target {
		return k.text.of(x)
	}
	return k.text.of(x) + o.pass.uri.target(x, o.to.uri) + k.suffix.of(x)
}

// lacksBody reports whether the upstream gets a body of the client's that is not in the key.
func (k *cacheKey) lacksBody(x *exchange, p *pass) bool {
	if p.body != nil || p.from.NoBody || x.sent == nil || x.sent.length == 0 || x.method != x.r.Method {
		return false
	}
	return !k.hasBody || requestBodyText(x) == ""
}

// tellsAuthorization reports whether a key has all that the Authorization of upstream requests depends on: the client's field, or the
// variables of the value that the configuration sets. A constant depends on nothing.
func tellsAuthorization(p *Pass, key Text) bool {
	var set *Text
	for i := range p.Header {
		if strings.EqualFold(p.Header[i].Name, "Authorization") {
			set = &p.Header[i].Value
		}
	}
	for i := range p.Params {
		if strings.EqualFold(p.Params[i].Name, "HTTP_AUTHORIZATION") {
			set = &p.Params[i].Value
		}
	}
	if set == nil {
		return slices.Contains(variablesOf(key), "http_authorization")
	}
	known := variablesOf(key)
	return !slices.ContainsFunc(variablesOf(*set), func(name string) bool { return !slices.Contains(known, name) })
}

// variablesOf are the names of a text's variables.
func variablesOf(t Text) (names []string) {
	for _, match := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(strings.ToLower(string(t)), -1) {
		names = append(names, match[1])
	}
	return names
}

// removesFields reports whether a client has fields removed from its request by naming them in Connection: RFC 9110, 7.6.1. They are
// still in variables, and so they may be in the key of a response that the upstream has made without them.
func removesFields(header http.Header) bool {
	for _, line := range header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.Trim(name, " \t"))
			if header[name] != nil && !roundtrip.ConcernsConnection(name) && name != "Http2-Settings" && !tellsOfClient(name) {
				return true
			}
		}
	}
	return false
}

// hidesFields reports whether a client's request has fields that the upstream may take for others, and that no variable has: two that
// differ in underscores only, or one that variables do not take for another. They are not in the key then.
func hidesFields(x *exchange, header http.Header) bool {
	if x.host.fields == (fieldNames{}) {
		return false
	}
	for name, values := range header {
		if !roundtrip.PlainName(name) && x.host.fields.pass(name) && !slices.Equal(x.requestField(takenFor(name)), values) {
			return true
		}
	}
	return false
}

// addTaken adds fields with underscores to those that upstreams take them for, such that a Vary that names these concerns both. They are
// marked: no list of a client's has the same elements.
func (f fieldNames) addTaken(header http.Header) {
	if f == (fieldNames{}) {
		return
	}
	var names []string
	for name := range header {
		if !roundtrip.PlainName(name) && f.pass(name) && takenFor(name) != name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		as := takenFor(name)
		all := slices.Clone(header[as])
		for _, value := range header[name] {
			all = append(all, "\x00"+name+"\x00"+value)
		}
		header[as] = all
	}
}

// Sent implements cache.Origin.
func (o *origin) Sent() (http.Header, string) {
	var q request
	o.pass.make(o.x, &q, o.to, &cache.OriginRequest{Method: o.x.method, Whole: true})
	o.x.host.fields.addTaken(q.header)
	for _, p := range q.params {
		if strings.HasPrefix(p.name, "HTTP_") {
			q.header[fieldOf(p.name)] = []string{p.value}
		}
	}
	return q.header, q.host
}
