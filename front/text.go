package front

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
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
			b.WriteString(escapeArgs(p.value(x)))
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
	var t text
	s := string(from)
	if strings.IndexByte(s, '$') < 0 {
		t.literal = s
		return t, nil
	}
	for s != "" {
		dollar := strings.IndexByte(s, '$')
		if dollar < 0 {
			dollar = len(s)
		}
		if dollar > 0 {
			t.parts = append(t.parts, part{literal: s[:dollar]})
			s = s[dollar:]
			continue
		}
		name, rest, err := cutName(s[1:])
		if err != nil {
			return text{}, fmt.Errorf("%w in %q", err, string(from))
		}
		p := part{}
		if n := int(name[0] - '0'); len(name) == 1 && n >= 1 && n <= 9 && s[1] != '{' {
			p.value, p.capture = func(x *exchange) string { return x.captures.group(n) }, true
		} else if p.value, err = c.variable(strings.ToLower(name)); err != nil {
			return text{}, fmt.Errorf("%w in %q", err, string(from))
		}
		t.parts = append(t.parts, p)
		s = rest
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

// cutName cuts the name off what follows a dollar sign. $1 to $9 have one digit.
func cutName(s string) (name, rest string, err error) {
	if s != "" && '1' <= s[0] && s[0] <= '9' {
		return s[:1], s[1:], nil
	}
	braced := strings.HasPrefix(s, "{")
	if braced {
		s = s[1:]
	}
	n := 0
	for n < len(s) && isName(s[n]) {
		n++
	}
	name, rest = s[:n], s[n:]
	if n == 0 {
		return "", "", errors.New("dollar sign without a variable name")
	}
	if !braced {
		return name, rest, nil
	}
	rest, ok := strings.CutPrefix(rest, "}")
	if !ok {
		return "", "", fmt.Errorf("missing closing brace of ${%s", name)
	}
	return name, rest, nil
}

func isName(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
