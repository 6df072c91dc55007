package grammar

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// Piece is a piece of a conf.Text: a literal, a variable, or a group of a regular expression.
type Piece struct {
	Source   string // as written
	Variable string // the name in lower case; "" for others
	Group    int    // of $1 to $9; 0 for others
}

// IsLiteral reports whether the piece stands for itself.
func (p Piece) IsLiteral() bool { return p.Variable == "" && p.Group == 0 }

// HasVariables reports whether a text is not constant.
func HasVariables(t conf.Text) bool { return strings.Contains(string(t), "$") }

// Pieces splits a text at its variables.
func Pieces(t conf.Text) ([]Piece, error) {
	pieces := make([]Piece, 0, 2*strings.Count(string(t), "$")+1)
	for s := string(t); s != ""; {
		dollar := strings.IndexByte(s, '$')
		if dollar < 0 {
			dollar = len(s)
		}
		if dollar > 0 {
			pieces = append(pieces, Piece{Source: s[:dollar]})
			s = s[dollar:]
			continue
		}
		p, err := variablePiece(s)
		if err != nil {
			return nil, fmt.Errorf("%w in %s", err, Quote(string(t)))
		}
		pieces = append(pieces, p)
		s = s[len(p.Source):]
	}
	return pieces, nil
}

// variablePiece returns the piece that a text with a leading dollar sign begins with.
func variablePiece(s string) (Piece, error) {
	name, isBraced := strings.CutPrefix(s[1:], "{")
	if !isBraced && name != "" && '1' <= name[0] && name[0] <= '9' {
		return Piece{Source: s[:2], Group: int(name[0] - '0')}, nil
	}
	if before, _, _ := strings.Cut(name, "}"); isBraced && IsOfClient(before) {
		name = before
	} else {
		name = name[:nameLength(name)]
	}
	end := len("$") + len(name)
	if isBraced {
		if end += len("{}"); end > len(s) || s[end-1] != '}' {
			return Piece{}, fmt.Errorf("missing \"}\" after %s", Quote("${"+name))
		}
	}
	if name == "" {
		return Piece{}, errors.New("missing variable name after $")
	}
	return Piece{Source: s[:end], Variable: strings.ToLower(name)}, nil
}

// IsVariableName reports whether a name can be that of a variable.
func IsVariableName(name string) bool { return name != "" && nameLength(name) == len(name) }

// IsOfClient reports whether a name is that of an argument or a cookie. In braces it may have
// other characters, because clients choose it.
func IsOfClient(name string) bool {
	name = strings.ToLower(name)
	return (strings.HasPrefix(name, "arg_") || strings.HasPrefix(name, "cookie_")) && !strings.ContainsAny(name, "$}")
}

// nameLength returns the length of the variable's name at the beginning of a text.
func nameLength(text string) int {
	for i, c := range []byte(text) {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return i
		}
	}
	return len(text)
}

// MaxWeight is the greatest weight of an element in a list of a header field.
const MaxWeight = 1000

// ParseWeight parses the parameters of such an element, which are its weight, and returns it in
// thousandths: RFC 9110, 12.4.2.
func ParseWeight(parameters string) (q int, ok bool) {
	parameters = strings.Trim(parameters, " \t")
	if parameters == "" {
		return MaxWeight, true
	}
	name, value, _ := strings.Cut(parameters, "=")
	if value = strings.Trim(value, " \t"); !strings.EqualFold(strings.Trim(name, " \t"), "q") || value == "" ||
		len(value) > len("0.000") {
		return 0, false
	}
	if value[0] != '0' && value[0] != '1' || len(value) > 1 && value[1] != '.' {
		return 0, false
	}
	q = 1000 * int(value[0]-'0')
	for i, unit := 2, 100; i < len(value); i, unit = i+1, unit/10 {
		if value[i] < '0' || value[i] > '9' {
			return 0, false
		}
		q += unit * int(value[i]-'0')
	}
	return q, q <= MaxWeight
}
