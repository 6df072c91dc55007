package fcgiclient

import (
	"fmt"
	"iter"
	"net/http"
	"slices"

	"github.com/tarehq/tare/internal/roundtrip"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// Params are the parameters of a request to an application: names and values, each name once.
type Params struct {
	text  []byte // names and values, and what was replaced
	pairs []wire.Pair
}

// Get returns a parameter's value, or "" if there is none.
func (p *Params) Get(name string) string {
	if i := p.find([]byte(name)); i >= 0 {
		return string(p.pairs[i].Value.In(p.text))
	}
	return ""
}

// Set sets a parameter, in place of the one that has this name.
func (p *Params) Set(name, value string) {
	at := len(p.text)
	p.text = append(p.text, name...)
	mid := len(p.text)
	p.text = append(p.text, value...)
	p.put(at, mid)
}

// Add sets a parameter whose name is known to be new.
func (p *Params) Add(name, value string) {
	at := len(p.text)
	p.text = append(p.text, name...)
	mid := len(p.text)
	p.text = append(p.text, value...)
	p.pairs = append(p.pairs, wire.Pair{Name: span(at, mid), Value: span(mid, len(p.text))})
}

// Del removes a parameter.
func (p *Params) Del(name string) {
	if i := p.find([]byte(name)); i >= 0 {
		p.pairs = slices.Delete(p.pairs, i, i+1)
	}
}

// All yields all parameters.
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

// put sets a parameter from text that was appended: the name from at to mid, the value behind.
func (p *Params) put(at, mid int) {
	pair := wire.Pair{Name: span(at, mid), Value: span(mid, len(p.text))}
	if i := p.find(p.text[at:mid]); i >= 0 {
		p.pairs[i] = pair
		return
	}
	p.pairs = append(p.pairs, pair)
}

func span(start, end int) http1.Span { return http1.Span{Start: uint32(start), End: uint32(end)} }

// appendTo appends the list as it is sent.
func (p *Params) appendTo(b []byte) []byte {
	for _, pair := range p.pairs {
		b = wire.AppendPair(b, pair.Name.In(p.text), pair.Value.In(p.text))
	}
	return b
}

// SetField sets what a field of the header becomes.
func (p *Params) SetField(name string, values []string) error {
	if !http1.ValidToken(name) {
		return fmt.Errorf("fcgi: malformed field name %q", name)
	}
	for _, v := range values {
		if !http1.ValidValue(v) {
			return fmt.Errorf("fcgi: malformed value of the field %q", name)
		}
	}
	between := ", "
	canonical := http.CanonicalHeaderKey(name)
	switch canonical {
	case "Content-Type":
		if len(values) > 0 {
			p.Set("CONTENT_TYPE", values[0])
		}
		return nil
	case "Proxy", // some programs take HTTP_PROXY for a setting
		"Content-Length", "Host", // told of elsewhere
		"Expect": // is met
		return nil
	case "User-Agent":
		if len(values) == 1 && values[0] == "" { // as net/http understands it
			return nil
		}
	case "Cookie":
		between = "; "
	}
	if len(values) == 0 || roundtrip.ConcernsConnection(canonical) || !roundtrip.PlainName(name) {
		return nil
	}
	p.put(p.appendVariable(name, values, between))
	return nil
}

// AddField adds what a field of a server's request becomes, as nginx does: HTTP_ and its name. No other field of the
// header may have become the same one. Fields that concern the connection, those whose names could be mistaken, and Proxy
// become nothing.
func (p *Params) AddField(name string, values []string) {
	if name == "Proxy" || len(values) == 0 || roundtrip.ConcernsConnection(name) || !roundtrip.PlainName(name) {
		return
	}
	between := ", "
	if name == "Cookie" {
		between = "; "
	}
	at, mid := p.appendVariable(name, values, between)
	p.pairs = append(p.pairs, wire.Pair{Name: span(at, mid), Value: span(mid, len(p.text))})
}

// appendVariable appends the parameter that a field becomes (RFC 3875, 4.1.18): the name from at to mid, the value
// behind.
func (p *Params) appendVariable(name string, values []string, between string) (at, mid int) {
	at = len(p.text)
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
	mid = len(p.text)
	for i, v := range values {
		if i > 0 {
			p.text = append(p.text, between...)
		}
		p.text = append(p.text, v...)
	}
	return at, mid
}
