package core

import (
	"fmt"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/uri"
)

// Text is a Text with its variables resolved.
type Text struct {
	Literal string // the whole text, if Parts is nil
	Parts   []part
}

// part is a part of a text: a literal or a variable.
type part struct {
	Literal string
	value   Variable // nil for a literal
	capture bool     // $1 to $9
}

// Variable returns the value of a variable.
type Variable func(x *Exchange) string

// Constant reports whether the text has no variables.
func (t *Text) Constant() bool { return t.Parts == nil }

// Empty reports whether the text is always empty.
func (t *Text) Empty() bool { return t.Parts == nil && t.Literal == "" }

// Eval returns the text for an exchange. It is small enough to be inlined: most texts are literal.
func (t *Text) Eval(x *Exchange) string {
	if t.Parts == nil {
		return t.Literal
	}
	return t.evalParts(x)
}

func (t *Text) evalParts(x *Exchange) string {
	if len(t.Parts) == 1 {
		return t.Parts[0].value(x)
	}
	var space [256]byte // enough for most texts
	return string(t.Append(space[:0], x))
}

// Append appends the text for an exchange.
func (t *Text) Append(b []byte, x *Exchange) []byte { return t.append(b, x, false) }

// append appends the text, with captures encoded or as they are.
func (t *Text) append(b []byte, x *Exchange, encodes bool) []byte {
	b = append(b, t.Literal...)
	for i := range t.Parts {
		switch p := &t.Parts[i]; {
		case p.value == nil:
			b = append(b, p.Literal...)
		case encodes && p.capture:
			b = append(b, uri.EscapeArgument(p.value(x))...)
		default:
			b = append(b, p.value(x)...)
		}
	}
	return b
}

// evalEscaped is Eval with captures encoded if the client's path has encoded characters, so that
// they cannot delimit a path or a query.
func (t *Text) evalEscaped(x *Exchange) string {
	if t.Parts == nil || !x.hasEncodedPath() {
		return t.Eval(x)
	}
	return string(t.append(nil, x, true))
}

// IsTrue reports whether the text is true as in nginx's if: neither empty nor "0".
func (t *Text) IsTrue(x *Exchange) bool {
	s := t.Eval(x)
	return s != "" && s != "0"
}

// Text resolves the variables of a Text; what says where it is.
func (c *Compiler) Text(what string, from conf.Text) Text {
	if !grammar.HasVariables(from) {
		return Text{Literal: string(from)}
	}
	t, err := c.resolve(from)
	c.Check(what, err)
	return t
}

func (c *Compiler) resolve(from conf.Text) (Text, error) {
	pieces, err := grammar.Pieces(from)
	if err != nil {
		return Text{}, err
	}
	t := Text{Parts: make([]part, len(pieces))}
	for i, p := range pieces {
		switch n := p.Group; {
		case p.IsLiteral():
			t.Parts[i].Literal = p.Source
		case n > 0:
			t.Parts[i] = part{value: func(x *Exchange) string { return x.Captures.group(n) }, capture: true}
		default:
			if t.Parts[i].value, err = c.Variable(p.Variable); err != nil {
				return Text{}, fmt.Errorf("%w in %q", err, string(from))
			}
		}
	}
	return t, nil
}

// Texts resolves the variables of several Texts.
func (c *Compiler) Texts(what string, from []conf.Text) []Text {
	all := make([]Text, len(from))
	for i, t := range from {
		all[i] = c.Text(what, t)
	}
	return all
}
