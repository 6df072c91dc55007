package proxy

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/wire/http1"
)

type cacheKey struct {
	text           core.Text
	hasTarget      bool      // the key is text and the target of the upstream request
	suffix         core.Text // follows the target
	hasRequestBody bool      // $request_body is in it
	// hasAuthorization: the key differs for each value of Authorization that the upstream receives.
	hasAuthorization bool
}

// compileCacheKey compiles the key of a Proxy. As in nginx the default has the target of the upstream
// request and not that of the client's: after a rewrite or an internal redirect they name different
// resources.
//
// nginx's default is the same for all hosts, even if the upstream receives them, so that two hosts
// of one upstream share responses. Here the Host that is sent belongs to the key.
func compileCacheKey(c *core.Compiler, p *conf.Proxy) (key cacheKey) {
	from := p.Cache.Key
	switch {
	case from != "":
	case p.Protocol == "fastcgi":
		c.Failf("missing cache key: FastCGI requires one, such as $scheme$request_method$host$request_uri")
	default:
		from, key.hasTarget = "$scheme$proxy_host", true
		var suffix conf.Text
		for _, f := range p.Header {
			if strings.EqualFold(f.Name, "Host") && strings.Contains(string(f.Value), "$") && f.Value != "$proxy_host" {
				suffix += " " + f.Value
			}
		}
		key.suffix = c.Text("cache key", suffix)
	}
	key.hasAuthorization = coversAuthorization(p, from)
	key.hasRequestBody = slices.Contains(variablesOf(from), "request_body")
	key.text = c.Text("cache key", from)
	return key
}

func (k *cacheKey) eval(x *core.Exchange, p *proxy, target destination) string {
	if !k.hasTarget {
		return k.text.Eval(x)
	}
	var space [256]byte // enough for most keys
	b := k.text.Append(space[:0], x)
	b = append(b, p.uri.requestTarget(x, target.rest)...)
	return string(k.suffix.Append(b, x))
}

// bodyNotInKey reports whether the upstream receives a body of the client's that is not in the key.
func (k *cacheKey) bodyNotInKey(x *core.Exchange, p *proxy) bool {
	if p.body != nil || p.from.NoBody || x.Received == nil || x.Received.Length() == 0 ||
		x.Method != x.Request.Method {
		return false
	}
	return !k.hasRequestBody || x.Received.Text() == ""
}

// coversAuthorization reports whether the key has everything that Authorization of upstream
// requests depends on: the client's field, or the variables of the configured value. A constant
// depends on nothing.
func coversAuthorization(p *conf.Proxy, key conf.Text) bool {
	var set *conf.Text
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
	inKey := variablesOf(key)
	return !slices.ContainsFunc(variablesOf(*set), func(name string) bool { return !slices.Contains(inKey, name) })
}

func variablesOf(t conf.Text) (names []string) {
	for _, match := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(strings.ToLower(string(t)), -1) {
		names = append(names, match[1])
	}
	return names
}

// removesOwnFields reports whether a request removes fields of its own by naming them in Connection
// (RFC 9110, 7.6.1). Variables still see them: the key would stand for a response that the upstream
// made without them.
func removesOwnFields(header http.Header) bool {
	for _, line := range header["Connection"] {
		for name := range http1.Elements(line) {
			name = http.CanonicalHeaderKey(name)
			if header[name] != nil && !http1.ConcernsConnection(name) && name != "Http2-Settings" &&
				!describesClient(name) {
				return true
			}
		}
	}
	return false
}

// hidesFields reports whether a request has fields that an upstream may confuse with others, while
// no variable and so no key has their values: two that differ in underscores only, or one that
// $http_NAME does not find.
func hidesFields(x *core.Exchange, header http.Header) bool {
	return slices.ContainsFunc(x.Host.Fields.Unusual(header), func(name string) bool {
		return !slices.Equal(x.RequestField(message.ConfusedWith(name)), header[name])
	})
}

// withConfused adds the values of fields with underscores to the fields that upstreams confuse them
// with. A Vary that names the latter covers both then. The values are marked with a NUL, which no
// client can send.
func withConfused(f message.FieldNames, header http.Header) http.Header {
	names := f.Unusual(header)
	if names == nil {
		return header
	}
	header = maps.Clone(header)
	for _, name := range names {
		plain := message.ConfusedWith(name)
		if plain == name {
			continue
		}
		all := slices.Clone(header[plain])
		for _, value := range header[name] {
			all = append(all, "\x00"+name+"\x00"+value)
		}
		header[plain] = all
	}
	return header
}
