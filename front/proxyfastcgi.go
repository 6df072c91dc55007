package front

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/wire/http1"
)

// fastcgiRules are the settings of a Proxy for FastCGI.
type fastcgiRules struct {
	params      []paramRule
	setFields   map[string]bool // fields that parameters named HTTP_ replace
	index       string
	split       *pattern // nil if the path is not split
	dropsHeader bool     // drops the client's header
}

// paramRule is a Param, compiled.
type paramRule struct {
	name       string
	value      text
	ifNotEmpty bool
}

// fastcgiParams are the parameters of one request.
type fastcgiParams struct {
	list   []param
	fields fieldNames // which of the client's fields become parameters
}

type param struct{ name, value string }

// fastcgiRules compiles the settings for FastCGI.
func (c *compiler) fastcgiRules(from *conf.Proxy) (*fastcgiRules, error) {
	g := &fastcgiRules{index: from.ParamIndex, dropsHeader: from.NoHeader, setFields: make(map[string]bool)}
	for _, p := range from.Params {
		value, err := c.text(p.Value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("param %s: %w", p.Name, err)
		case p.Name == "":
			return nil, errors.New("a parameter has no name")
		}
		field := strings.HasPrefix(p.Name, "HTTP_")
		if field {
			g.setFields[fieldOfParam(p.Name)] = true
		}
		// as in nginx an empty one only hides the client's field
		g.params = append(g.params, paramRule{p.Name, value, p.IfNotEmpty || field && p.Value == ""})
	}
	if len(from.Header) > 0 {
		return nil, errors.New("Header requires HTTP: for FastCGI use Params named HTTP_")
	}
	if from.SplitPath == "" {
		return g, nil
	}
	p, err := c.parsePattern(from.SplitPath, false)
	if err != nil {
		return nil, fmt.Errorf("split path: %w", err)
	}
	if n := len(p.re.Names()); n < 3 {
		return nil, fmt.Errorf("split path %q: want two groups, for the script and the path info", from.SplitPath)
	}
	g.split = p
	return g, nil
}

// buildParams makes the parameters of a request.
func (g *fastcgiRules) buildParams(x *exchange, q *fetch.Spec, params *fastcgiParams,
	opts *cache.OriginRequest) {
	params.list = slices.Grow(params.list[:0], len(g.params))
	for i := range g.params {
		r := &g.params[i]
		value := r.value.eval(x)
		if opts != nil && r.name == "REQUEST_METHOD" && value == x.method {
			value = q.Method // the cache turns HEAD into GET
		}
		if r.name == "CONTENT_LENGTH" && x.parent != nil && !x.hasReceived() {
			value = "" // a subrequest does not send the client's body
		}
		if value != "" || !r.ifNotEmpty {
			params.list = append(params.list, param{r.name, value})
		}
	}
	if !g.dropsHeader {
		q.Header, q.Host, params.fields = x.r.Header, x.hostHeader, x.host.fields
	}
	if opts == nil {
		return // the client reads the header, and only until the response
	}
	header := make(http.Header, len(q.Header))
	for name, values := range q.Header {
		if g.passesField(name, q.Header) {
			header[name] = values
		}
	}
	delete(header, "Connection") // set fields must not be removed by it
	opts.Apply(header)
	q.Header = header
}

// passesField reports whether the application receives a field of the client's header.
func (g *fastcgiRules) passesField(name string, header http.Header) bool {
	if g.setFields[name] || name == "Expect" || name == "Host" { // setParams adds the host
		return false
	}
	dropped := header["Connection"]
	return dropped == nil || name == "Content-Length" || describesClient(name) || !http1.HasToken(dropped, name)
}

// fieldOfParam returns the field that a parameter named HTTP_ stands for.
func fieldOfParam(param string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(strings.TrimPrefix(param, "HTTP_"), "_", "-"))
}

// AddParams implements fetch.Caller.
func (s *upstreamRequest) AddParams(p *client.Params) {
	q, g := &s.request.Spec, s.proxy.fastcgi
	for _, param := range s.params.list {
		p.Add(param.name, param.value)
	}
	for name, values := range q.Header {
		if g.passesField(name, q.Header) {
			p.AddField(name, values)
		}
	}
	if s.params.fields != (fieldNames{}) {
		s.addUnusualFields(p)
	}
	if q.Host != "" && !g.setFields["Host"] {
		p.Add("HTTP_HOST", q.Host)
	}
}

// fastcgiRules returns the rules of the exchange's location, or nil.
func (x *exchange) fastcgiRules() *fastcgiRules {
	if x.loc != nil {
		if p, ok := x.loc.content.(*proxy); ok {
			return p.fastcgi
		}
	}
	return nil
}

// script returns $fastcgi_script_name and $fastcgi_path_info.
func (x *exchange) script() (name, info string) {
	g := x.fastcgiRules()
	name = x.path
	switch {
	case g == nil:
		return name, ""
	case g.split != nil:
		bounds := g.split.find(x, x.path)
		if len(bounds) >= 6 && bounds[2] >= 0 && bounds[4] >= 0 {
			name, info = x.path[bounds[2]:bounds[3]], x.path[bounds[4]:bounds[5]]
		}
	}
	if strings.HasSuffix(x.path, "/") && strings.HasSuffix(name, "/") {
		name += g.index
	}
	return name, info
}

// addUnusualFields adds parameters for fields with unusual names. They never replace another
// field's.
func (s *upstreamRequest) addUnusualFields(p *client.Params) {
	var names []string
	header, fastcgi := s.request.Spec.Header, s.proxy.fastcgi
	for name := range header {
		if !http1.PlainName(name) && s.params.fields.allows(name) && fastcgi.passesField(name, header) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	added := make(map[string]bool)
	for _, name := range names {
		confused := confusedWith(name)
		if confused != name && header[confused] != nil || fastcgi.setFields[confused] ||
			confused == "Proxy" || added[confused] {
			continue
		}
		added[confused] = true
		p.Add("HTTP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), joinValues(header[name]))
	}
}
