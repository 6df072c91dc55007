package front

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/uri"
)

// text is a Text with its variables resolved.
type text struct {
	literal string // the whole text, if parts is nil
	parts   []part
}

// part is a part of a text: a literal or a variable.
type part struct {
	literal string
	value   variable // nil for a literal
	capture bool     // $1 to $9
}

// variable returns the value of a variable.
type variable func(x *exchange) string

// constant reports whether the text has no variables.
func (t *text) constant() bool { return t.parts == nil }

// empty reports whether the text is always empty.
func (t *text) empty() bool { return t.parts == nil && t.literal == "" }

// eval returns the text for an exchange.
func (t *text) eval(x *exchange) string {
	if t.parts == nil {
		return t.literal
	}
	if len(t.parts) == 1 {
		return t.parts[0].value(x)
	}
	var b strings.Builder
	for i := range t.parts {
		if p := &t.parts[i]; p.value != nil {
			b.WriteString(p.value(x))
		} else {
			b.WriteString(p.literal)
		}
	}
	return b.String()
}

// evalEscaped is eval with captures encoded, so that they cannot delimit a query.
func (t *text) evalEscaped(x *exchange) string {
	if t.parts == nil {
		return t.literal
	}
	var b strings.Builder
	for i := range t.parts {
		switch p := &t.parts[i]; {
		case p.value == nil:
			b.WriteString(p.literal)
		case p.capture:
			b.WriteString(uri.EscapeArgument(p.value(x)))
		default:
			b.WriteString(p.value(x))
		}
	}
	return b.String()
}

// isTrue reports whether the text is true as in nginx's if: neither empty nor "0".
func (t *text) isTrue(x *exchange) bool {
	s := t.eval(x)
	return s != "" && s != "0"
}

// text resolves the variables of a Text.
func (c *compiler) text(from conf.Text) (text, error) {
	if !grammar.HasVariables(from) {
		return text{literal: string(from)}, nil
	}
	pieces, err := grammar.Pieces(from)
	if err != nil {
		return text{}, err
	}
	t := text{parts: make([]part, len(pieces))}
	for i, p := range pieces {
		switch n := p.Group; {
		case p.IsLiteral():
			t.parts[i].literal = p.Source
		case n > 0:
			t.parts[i] = part{value: func(x *exchange) string { return x.captures.group(n) }, capture: true}
		default:
			if t.parts[i].value, err = c.variable(p.Variable); err != nil {
				return text{}, fmt.Errorf("%w in %q", err, string(from))
			}
		}
	}
	return t, nil
}

// texts resolves the variables of several Texts.
func (c *compiler) texts(from []conf.Text) ([]text, error) {
	all := make([]text, len(from))
	for i, t := range from {
		var err error
		if all[i], err = c.text(t); err != nil {
			return nil, err
		}
	}
	return all, nil
}
