package client

import (
	"fmt"
	"iter"
	"net/http"
	"slices"

	wire "github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// Params holds the parameters of a request to an application: names and values, each name once.
type Params struct {
	text  []byte // names and values, including replaced ones
	pairs []wire.Pair
}

// Clear removes all parameters, and keeps the memory for others.
func (p *Params) Clear() { p.text, p.pairs = p.text[:0], p.pairs[:0] }

// Get returns the value of a parameter, or "" if there is none.
func (p *Params) Get(name string) string {
	value, _ := p.Lookup(name)
	return value
}

// Lookup returns the value of a parameter, and whether there is one.
func (p *Params) Lookup(name string) (value string, ok bool) {
	if i := p.find([]byte(name)); i >= 0 {
		return string(p.pairs[i].Value.In(p.text)), true
	}
	return "", false
}

// Set sets a parameter. It replaces a parameter with the same name.
func (p *Params) Set(name, value string) { p.put(p.store(name, value)) }

// Add adds a parameter whose name must be new. Unlike Set, it does not search for the name.
func (p *Params) Add(name, value string) { p.pairs = append(p.pairs, p.store(name, value)) }

// store appends a name and a value to text.
func (p *Params) store(name, value string) wire.Pair {
	at := len(p.text)
	p.text = append(p.text, name...)
	mid := len(p.text)
	p.text = append(p.text, value...)
	return wire.Pair{Name: http1.SpanOf(at, mid), Value: http1.SpanOf(mid, len(p.text))}
}

// Del removes a parameter.
func (p *Params) Del(name string) {
	if i := p.find([]byte(name)); i >= 0 {
		p.pairs = slices.Delete(p.pairs, i, i+1)
	}
}

// All returns an iterator over all parameters.
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

// put sets a parameter that is at the end of text.
func (p *Params) put(pair wire.Pair) {
	if i := p.find(pair.Name.In(p.text)); i >= 0 {
		p.pairs[i] = pair
		return
	}
	p.pairs = append(p.pairs, pair)
}

func (p *Params) appendTo(b []byte) []byte {
	for _, pair := range p.pairs {
		b = wire.AppendPair(b, pair.Name.In(p.text), pair.Value.In(p.text))
	}
	return b
}

// SetField sets the parameter that a header field becomes. Fields that concern the connection, and
// fields whose names could become another field's parameter, are dropped.
func (p *Params) SetField(name string, values []string) error {
	if !http1.ValidToken(name) {
		return fmt.Errorf("fcgi: invalid header field name %q", name)
	}
	for _, v := range values {
		if !http1.ValidValue(v) {
			return fmt.Errorf("fcgi: invalid header field value for %q", name)
		}
	}
	canonical := http.CanonicalHeaderKey(name)
	switch canonical {
	case "Content-Type":
		if len(values) > 0 {
			p.Set("CONTENT_TYPE", values[0])
		}
		return nil
	case "Content-Length", "Host", // Describe sets these
		"Expect": // the Client itself meets the expectation
		return nil
	case "User-Agent":
		if len(values) == 1 && values[0] == "" { // as net/http interprets it
			return nil
		}
	}
	if variable, ok := p.variableOf(canonical, values); ok {
		p.put(variable)
	}
	return nil
}

// AddField adds the parameter that a field of a server's request becomes: HTTP_ and its name, as in
// nginx. No other field may have become the same parameter before. Fields that concern the
// connection, fields whose names are not plain (see http1.PlainName), and Proxy are dropped.
func (p *Params) AddField(name string, values []string) {
	if variable, ok := p.variableOf(name, values); ok {
		p.pairs = append(p.pairs, variable)
	}
}

// variableOf returns the parameter that a field becomes, if any. To some programs HTTP_PROXY is a
// setting (https://httpoxy.org).
func (p *Params) variableOf(name string, values []string) (variable wire.Pair, ok bool) {
	if name == "Proxy" || len(values) == 0 || http1.ConcernsConnection(name) || !http1.PlainName(name) {
		return wire.Pair{}, false
	}
	between := ", "
	if name == "Cookie" {
		between = "; "
	}
	return p.storeVariable(name, values, between), true
}

// storeVariable appends the parameter that a field becomes to text (RFC 3875, 4.1.18).
func (p *Params) storeVariable(name string, values []string, between string) wire.Pair {
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
	return wire.Pair{Name: http1.SpanOf(at, mid), Value: http1.SpanOf(mid, len(p.text))}
}
