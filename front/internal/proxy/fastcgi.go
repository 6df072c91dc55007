package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/client"
)

type fastcgiRules struct {
	params []paramRule
	fields headerRules // sets are the fields that parameters named HTTP_ replace
	index  string
	split  *core.Pattern // nil if the path is not split
}

type paramRule struct {
	name       string
	value      core.Text
	ifNotEmpty bool
}

func newFastCGIRules(c *core.Compiler, from *conf.Proxy) *fastcgiRules {
	g := &fastcgiRules{index: from.ParamIndex,
		fields: headerRules{dropsHeader: from.NoHeader, sets: make(map[string]bool)}}
	for _, p := range from.Params {
		value := c.Text("fastcgi param "+p.Name, p.Value)
		if p.Name == "" {
			c.Failf("proxy: a parameter has no name")
		}
		field := strings.HasPrefix(p.Name, "HTTP_")
		if field {
			g.fields.sets[fieldOfParam(p.Name)] = true
		}
		// as in nginx an empty one only hides the client's field
		g.params = append(g.params, paramRule{p.Name, value, p.IfNotEmpty || field && p.Value == ""})
	}
	if len(from.Header) > 0 {
		c.Failf("proxy: the field Header requires HTTP: for FastCGI use Params named HTTP_")
	}
	if from.SplitPath == "" {
		return g
	}
	p := c.ParsePattern("fastcgi split path", from.SplitPath, false)
	if n := len(p.Re.Names()); n < 3 {
		c.Failf("proxy: split path %q: want two groups, for the script and the path info", from.SplitPath)
	}
	g.split = p
	return g
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
	if g.fields.dropsHeader {
		return
	}
	for name, values := range x.Request.Header {
		if g.passesField(x, name) && (opts == nil || !opts.Whole || !cache.IsConditional(name)) {
			q.Params.AddField(name, values)
		}
	}
	g.addUnusualFields(x, q.Params)
	g.addHost(x, q.Params)
	if opts != nil {
		added := make(http.Header)
		opts.Apply(added)
		for name, values := range added {
			if !g.fields.sets[name] {
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
	if x.HostHeader != "" && !g.fields.sets["Host"] {
		p.Add("HTTP_HOST", x.HostHeader)
	}
}

// field returns what the application receives of a field: the value of one parameter.
func (g *fastcgiRules) field(x *core.Exchange, name string) []string {
	p := new(client.Params)
	for i := range g.params {
		r := &g.params[i]
		if g.fields.sets[name] && strings.HasPrefix(r.name, "HTTP_") && fieldOfParam(r.name) == name {
			r.addTo(p, r.value.Eval(x))
		}
	}
	switch {
	case g.fields.dropsHeader:
	case name == "Host":
		g.addHost(x, p)
	case g.passesField(x, name):
		p.AddField(name, x.Request.Header[name])
		g.addUnusualFields(x, p)
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
func (g *fastcgiRules) passesField(x *core.Exchange, name string) bool {
	switch name {
	case "Host": // addHost adds it
		return false
	case "Content-Length":
		return !g.fields.sets[name]
	}
	return g.fields.passes(name, x.Request.Header, x.Host.Fields)
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
func (g *fastcgiRules) addUnusualFields(x *core.Exchange, p *client.Params) {
	var added []string
	header := x.Request.Header
	for _, name := range x.Host.Fields.Unusual(header) {
		confused := message.ConfusedWith(name)
		if !g.passesField(x, name) || confused != name && header[confused] != nil || g.fields.sets[confused] ||
			confused == "Proxy" || slices.Contains(added, confused) {
			continue
		}
		added = append(added, confused)
		p.Add("HTTP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), strings.Join(header[name], ", "))
	}
}
