package front

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/cache"
	"github.com/tarehq/tare/internal/fcgiclient"
)

// maxStderr bounds what of an application's STDERR is told of at a time.
const maxStderr = 2 << 10

// cgi is what a Pass says of FastCGI.
type cgi struct {
	params []cgiRule
	given  map[string]bool // fields that parameters named HTTP_ are: what clients say under them is not told
	index  string
	split  *pattern // nil does not
	none   bool     // of the client's header
}

// cgiRule is a Param, compiled.
type cgiRule struct {
	name       string
	value      text
	ifNotEmpty bool
}

// cgiParam is a parameter of one request.
type cgiParam struct{ name, value string }

// cgi compiles what is said of FastCGI.
func (c *compiler) cgi(from *Pass) (*cgi, error) {
	g := &cgi{index: from.ParamIndex, none: from.NoHeader, given: make(map[string]bool)}
	for _, p := range from.Params {
		value, err := c.text(p.Value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("param %s: %w", p.Name, err)
		case p.Name == "":
			return nil, errors.New("a param has no name")
		}
		field := strings.HasPrefix(p.Name, "HTTP_")
		if field {
			g.given[fieldOf(p.Name)] = true
		}
		g.params = append(g.params, cgiRule{p.Name, value, p.IfNotEmpty || field && p.Value == ""}) // as in nginx it only hides the client's
	}
	if len(from.Header) > 0 {
		return nil, errors.New("fields are set for HTTP only: want Params named HTTP_")
	}
	if from.SplitPath == "" {
		return g, nil
	}
	p, err := c.parsePattern(from.SplitPath, false)
	if err != nil {
		return nil, fmt.Errorf("split path: %w", err)
	}
	if n := len(p.re.Names()); n < 3 {
		return nil, fmt.Errorf("split path %q: want two groups, the script and what follows", from.SplitPath)
	}
	g.split = p
	return g, nil
}

// make makes the parameters of a request.
func (g *cgi) make(x *exchange, q *request, ask *cache.OriginRequest) {
	q.params = slices.Grow(q.params[:0], len(g.params))
	for i := range g.params {
		r := &g.params[i]
		value := r.value.of(x)
		if ask != nil && r.name == "REQUEST_METHOD" && value == x.method {
			value = q.method // the cache asks by GET for HEAD
		}
		if r.name == "CONTENT_LENGTH" && x.parent != nil {
			value = "" // that of the client's body, which is not sent
		}
		if value != "" || !r.ifNotEmpty {
			q.params = append(q.params, cgiParam{r.name, value})
		}
	}
	if !g.none {
		q.header, q.host, q.fields = x.r.Header, x.asked, x.host.fields
	}
	if ask == nil {
		return // it is only read, and only until there is an answer
	}
	header := make(http.Header, len(q.header))
	for name, values := range q.header {
		if g.tells(name, q.header) {
			header[name] = values
		}
	}
	delete(header, "Connection") // it takes away nothing that is set now
	ask.Apply(header)
	q.header = header
}

// tells reports whether an application is told of a field of a header.
func (g *cgi) tells(name string, header http.Header) bool {
	if g.given[name] || name == "Expect" || name == "Host" { // the host is told once, by describe
		return false
	}
	dropped := header["Connection"]
	return dropped == nil || name == "Content-Length" || tellsOfClient(name) || !hasToken(dropped, name)
}

// fieldOf is the field that becomes a parameter whose name begins with HTTP_.
func fieldOf(param string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(strings.TrimPrefix(param, "HTTP_"), "_", "-"))
}

// askFastCGI sends the request to an application and waits for the head of the answer.
func (s *sending) askFastCGI(a *attempt, r *http.Request) (*http.Response, error) {
	o := &fcgiclient.Options{Addr: a.addr, Describe: s.describe, Stderr: func(text []byte) { s.stderr(a.addr, text) }, Repeatable: a.repeatable()}
	r.URL.Scheme = "fcgi"
	resp, err := s.group.plain.fcgi.Do(r, o)
	a.unsent = !o.Sent
	return resp, err
}

// describe sets the parameters.
func (s *sending) describe(p *fcgiclient.Params, _ int64) error {
	for _, param := range s.params {
		p.Add(param.name, param.value)
	}
	g := s.pass.cgi
	for name, values := range s.header {
		if g.tells(name, s.header) {
			p.AddField(name, values)
		}
	}
	if s.fields != (fieldNames{}) {
		s.addOtherFields(p)
	}
	if s.host != "" && !g.given["Host"] {
		p.Add("HTTP_HOST", s.host)
	}
	return nil
}

// stderr has the log say what an application does.
func (s *sending) stderr(addr string, text []byte) {
	for len(text) > 0 {
		part := text[:min(len(text), maxStderr)]
		text = text[len(part):]
		s.complain(levelError, addr, fmt.Errorf("FastCGI sent in stderr: %q", part))
	}
}

// cgiOf is what the location says of FastCGI, nil if it does not.
func (x *exchange) cgiOf() *cgi {
	if x.loc != nil {
		if p, ok := x.loc.content.(*pass); ok {
			return p.cgi
		}
	}
	return nil
}

// script is the path as FastCGI has it: that of the script, and what follows.
func (x *exchange) script() (name, info string) {
	g := x.cgiOf()
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
