package front

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/internal/client"
)

// maxStderr bounds one error log line about an application's STDERR.
const maxStderr = 2 << 10

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

// param is a parameter of one request.
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
func (g *fastcgiRules) buildParams(x *exchange, q *requestSpec, opts *cache.OriginRequest) {
	q.params = slices.Grow(q.params[:0], len(g.params))
	for i := range g.params {
		r := &g.params[i]
		value := r.value.eval(x)
		if opts != nil && r.name == "REQUEST_METHOD" && value == x.method {
			value = q.method // the cache turns HEAD into GET
		}
		if r.name == "CONTENT_LENGTH" && x.parent != nil && !x.hasReceived() {
			value = "" // a subrequest does not send the client's body
		}
		if value != "" || !r.ifNotEmpty {
			q.params = append(q.params, param{r.name, value})
		}
	}
	if !g.dropsHeader {
		q.header, q.host, q.fields = x.r.Header, x.hostHeader, x.host.fields
	}
	if opts == nil {
		return // the client reads the header, and only until the response
	}
	header := make(http.Header, len(q.header))
	for name, values := range q.header {
		if g.passesField(name, q.header) {
			header[name] = values
		}
	}
	delete(header, "Connection") // set fields must not be removed by it
	opts.Apply(header)
	q.header = header
}

// passesField reports whether the application receives a field of the client's header.
func (g *fastcgiRules) passesField(name string, header http.Header) bool {
	if g.setFields[name] || name == "Expect" || name == "Host" { // setParams adds the host
		return false
	}
	dropped := header["Connection"]
	return dropped == nil || name == "Content-Length" || describesClient(name) || !hasToken(dropped, name)
}

// fieldOfParam returns the field that a parameter named HTTP_ stands for.
func fieldOfParam(param string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(strings.TrimPrefix(param, "HTTP_"), "_", "-"))
}

// roundTripFastCGI sends the request to an application and waits for the head of the response.
func (s *upstreamRequest) roundTripFastCGI(a *attempt, r *http.Request) (*http.Response, error) {
	c := s.group.transport.fcgi
	if a != &s.firstAttempt || s.clientMemory == nil {
		return c.RoundTripFastCGI(r, s.optionsOf(a))
	}
	if s.fastcgiOptions == nil {
		s.fastcgiOptions = s.optionsOf(a)
	}
	s.fastcgiOptions.Addr = a.addr
	return c.RoundTripFastCGIIn(s.clientMemory, r, s.fastcgiOptions)
}

// optionsOf returns the settings of the client for an attempt.
func (s *upstreamRequest) optionsOf(a *attempt) *client.FastCGIOptions {
	return &client.FastCGIOptions{Addr: a.addr, Describe: s.setParams,
		Stderr: func(text []byte) { s.logStderr(a.addr, text) }}
}

// setParams sets the parameters.
func (s *upstreamRequest) setParams(p *client.Params, _ int64) error {
	for _, param := range s.spec.params {
		p.Add(param.name, param.value)
	}
	g := s.proxy.fastcgi
	for name, values := range s.spec.header {
		if g.passesField(name, s.spec.header) {
			p.AddField(name, values)
		}
	}
	if s.spec.fields != (fieldNames{}) {
		s.addUnusualFields(p)
	}
	if s.spec.host != "" && !g.setFields["Host"] {
		p.Add("HTTP_HOST", s.spec.host)
	}
	return nil
}

// logStderr logs what an application writes to STDERR.
func (s *upstreamRequest) logStderr(addr string, text []byte) {
	for len(text) > 0 {
		part := text[:min(len(text), maxStderr)]
		text = text[len(part):]
		s.logFailure(levelError, addr, fmt.Errorf("FastCGI sent in stderr: %q", part))
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
