package load

import (
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// request is one request of a Plan, independent of the protocol.
type request struct {
	url    parsedURL
	method string
	fields []field // the Plan's header fields, in order
	params []field // FastCGI parameters, in order
	body   string

	expressions []expression // of its template, by number of their mark
}

// field is a header field, or a FastCGI parameter.
type field struct{ name, value string }

func newRequest(p *Plan, to parsedURL, expressions []expression) (*request, error) {
	if !http1.ValidToken(p.Method) || !http1.ValidTarget(to.target) {
		return nil, badPlan("invalid request line %q %q", p.Method, to.target)
	}
	q := &request{url: to, method: p.Method, body: p.Body, expressions: expressions}
	for _, line := range p.Header {
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || !http1.ValidToken(name) || !http1.ValidValue(value) {
			return nil, badPlan("header field %q: want \"Name: value\"", line)
		}
		q.fields = append(q.fields, field{name, value})
	}
	for _, param := range p.Params {
		name, value, ok := strings.Cut(param, "=")
		if !ok || name == "" {
			return nil, badPlan("parameter %q: want NAME=value", param)
		}
		q.params = append(q.params, field{name, value})
	}
	if len(q.params) > 0 && !isFastCGI(to.protocol) {
		return nil, badPlan("%q: parameters require FastCGI", p.URL)
	}
	return q, nil
}

func (q *request) get(name string) (value string, ok bool) {
	for _, f := range q.fields {
		if strings.EqualFold(f.name, name) {
			return f.value, true
		}
	}
	return "", false
}

func (q *request) has(name string) bool {
	_, ok := q.get(name)
	return ok
}

// sendsLength reports whether a request sends Content-Length. Methods that usually have a body send
// it even without one (RFC 9110, 8.6).
func (q *request) sendsLength() bool {
	return q.body != "" || slices.Contains([]string{"POST", "PUT", "PATCH"}, q.method)
}
