package grammar

import (
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

func TestTextIsSplitIntoPieces(t *testing.T) {
	for text, want := range map[conf.Text][]Piece{
		"":         {},
		"plain":    {{Source: "plain"}},
		"$uri":     {{Source: "$uri", Variable: "uri"}},
		"a${Uri}b": {{Source: "a"}, {Source: "${Uri}", Variable: "uri"}, {Source: "b"}},
		"$1$12":    {{Source: "$1", Group: 1}, {Source: "$1", Group: 1}, {Source: "2"}},
		"${1}":     {{Source: "${1}", Variable: "1"}},
		"$0":       {{Source: "$0", Variable: "0"}},
		"$a_b-$c":  {{Source: "$a_b", Variable: "a_b"}, {Source: "-"}, {Source: "$c", Variable: "c"}},
		"}{$a}":    {{Source: "}{"}, {Source: "$a", Variable: "a"}, {Source: "}"}},
	} {
		got, err := Pieces(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %+v %v, want %+v", text, got, err, want)
		}
		if HasVariables(text) != strings.Contains(string(text), "$") {
			t.Errorf("%q: HasVariables is wrong", text)
		}
	}
	for text, want := range map[conf.Text]string{
		"$": "missing variable name", "a$": "missing variable name", "$-": "missing variable name",
		"$$a": "missing variable name", "${": "missing", "${}": "missing variable name", "${a": "missing \"}\"",
		"${a-b}": "missing \"}\"", "a$é": "missing variable name",
	} {
		if got, err := Pieces(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %v, want an error with %q", text, got, err, want)
		}
	}
}

// The pieces of a text, put together, are the text.
func FuzzPieces(f *testing.F) {
	for _, text := range []string{"", "$", "a${b}c$1", "${", "$a$b", "\xff$"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pieces, err := Pieces(conf.Text(text))
		if err != nil {
			return
		}
		var b strings.Builder
		for _, p := range pieces {
			if p.Source == "" || !p.IsLiteral() && p.Source[0] != '$' ||
				p.Variable != "" && !IsVariableName(p.Variable) {
				t.Errorf("%q: piece %+v", text, p)
			}
			b.WriteString(p.Source)
		}
		if b.String() != text {
			t.Errorf("%q: the pieces are %+v", text, pieces)
		}
	})
}
