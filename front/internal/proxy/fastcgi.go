package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/wire/http1"
)

type fastcgiRules struct {
	params      []paramRule
	setFields   map[string]bool // fields that parameters named HTTP_ replace
	index       string
	split       *core.Pattern // nil if the path is not split
	dropsHeader bool          // drops the client's header
}

type paramRule struct {
	name       string
	value      core.Text
	ifNotEmpty bool
}

func newFastCGIRules(c *core.Compiler, from *conf.Proxy) (*fastcgiRules, error) {
	g := &fastcgiRules{index: from.ParamIndex, dropsHeader: from.NoHeader, setFields: make(map[string]bool)}
	for _, p := range from.Params {
		value := c.Text("fastcgi param "+p.Name, p.Value)
		if p.Name == "" {
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
		return nil, errors.New("the field Header requires HTTP: for FastCGI use Params named HTTP_")
	}
	if from.SplitPath == "" {
		return g, nil
	}
	p := c.ParsePattern("fastcgi split path", from.SplitPath, false)
	if n := len(p.Re.Names()); n < 3 {
		return nil, fmt.Errorf("split path %q: want two groups, for the script and the path info", from.SplitPath)
	}
	g.split = p
	return g, nil
}

func (g *fastcgiRules) buildParams(x *core.Exchange, q *fetch.Request, opts *cache.OriginRequest) {
	for i := range g.params {
		r := &g.params[i]
		value := r.value.Eval(x)
		if opts != nil && r.name == "REQUEST_METHOD" && value == x.Method {
			value = q.Method // the cache turns HEAD into GET
		}
		if r.name == "CONTENT_LENGTH" && x.Parent != nil && x.Received == nil {
			value = "" // a subrequest does not send the client's body
		}
		r.addTo(q.Params, value)
	}
	if g.dropsHeader {
		return
	}
	header := x.Request.Header
	for name, values := range header {
		if g.passesField(name, header) && (opts == nil || !opts.Whole || !cache.IsConditional(name)) {
			q.Params.AddField(name, values)
		}
	}
	g.addUnusualFields(q.Params, header, x.Host.Fields)
	g.addHost(x, q.Params)
	if opts != nil {
		added := make(http.Header)
		opts.Apply(added)
		for name, values := range added {
			if !g.setFields[name] {
				q.Params.AddField(name, values)
			}
		}
	}
}

func (r *paramRule) addTo(p *client.Params, value string) {
	if value != "" || !r.ifNotEmpty {
		p.Add(r.name, value)
	}
}

func (g *fastcgiRules) addHost(x *core.Exchange, p *client.Params) {
	if x.HostHeader != "" && !g.setFields["Host"] {
		p.Add("HTTP_HOST", x.HostHeader)
	}
}

// field returns what the application receives of a field: the value of one parameter.
func (g *fastcgiRules) field(x *core.Exchange, name string) []string {
	p, header := new(client.Params), x.Request.Header
	for i := range g.params {
		r := &g.params[i]
		if g.setFields[name] && strings.HasPrefix(r.name, "HTTP_") && fieldOfParam(r.name) == name {
			r.addTo(p, r.value.Eval(x))
		}
	}
	switch {
	case g.dropsHeader:
	case name == "Host":
		g.addHost(x, p)
	case g.passesField(name, header):
		p.AddField(name, header[name])
		g.addUnusualFields(p, header, x.Host.Fields)
	}
	return paramOf(p, name)
}

// paramOf returns the value of the parameter that stands for a field, nil without one.
func paramOf(p *client.Params, field string) []string {
	if value, ok := p.Lookup("HTTP_" + strings.ToUpper(strings.ReplaceAll(field, "-", "_"))); ok {
		return []string{value}
	}
	return nil
}

// passesField reports whether the application receives a field of the client's header.
func (g *fastcgiRules) passesField(name string, header http.Header) bool {
	if g.setFields[name] || name == "Expect" || name == "Host" { // addHost adds it
		return false
	}
	dropped := header["Connection"]
	return dropped == nil || name == "Content-Length" || describesClient(name) || !http1.HasToken(dropped, name)
}

// fieldOfParam returns the field that a parameter named HTTP_ stands for.
func fieldOfParam(param string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(strings.TrimPrefix(param, "HTTP_"), "_", "-"))
}

// script returns $fastcgi_script_name and $fastcgi_path_info.
func script(x *core.Exchange) (name, info string) {
	name = x.Path
	p := proxyOf(x)
	if p == nil || p.fastcgi == nil {
		return name, ""
	}
	g := p.fastcgi
	if g.split != nil {
		bounds := g.split.Find(x, x.Path)
		if len(bounds) >= 6 && bounds[2] >= 0 && bounds[4] >= 0 {
			name, info = x.Path[bounds[2]:bounds[3]], x.Path[bounds[4]:bounds[5]]
		}
	}
	if strings.HasSuffix(x.Path, "/") && strings.HasSuffix(name, "/") {
		name += g.index
	}
	return name, info
}

// addUnusualFields adds parameters for fields with unusual names. They never replace another
// field's.
func (g *fastcgiRules) addUnusualFields(p *client.Params, header http.Header, fields message.FieldNames) {
	var added []string
	for _, name := range fields.Unusual(header) {
		confused := message.ConfusedWith(name)
		if !g.passesField(name, header) || confused != name && header[confused] != nil || g.setFields[confused] ||
			confused == "Proxy" || slices.Contains(added, confused) {
			continue
		}
		added = append(added, confused)
		p.Add("HTTP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), strings.Join(header[name], ", "))
	}
}
