package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestSplitWordsFollowsShellQuoting(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{"  ", nil},
		{"./a -addr {addr}", []string{"./a", "-addr", "{addr}"}},
		{"\ta  b\t", []string{"a", "b"}},
		{`a 'b c' "d e"`, []string{"a", "b c", "d e"}},
		{`a'b'"c"d`, []string{"abcd"}},
		{`a '' ""`, []string{"a", "", ""}},
		{`a\ b \'`, []string{"a b", "'"}},
		{`'a\b' "a\b" "a\"b" "\\" "\$"`, []string{`a\b`, `a\b`, `a"b`, `\`, `$`}},
		{`sh -c 'echo $A | cat'`, []string{"sh", "-c", "echo $A | cat"}},
		{`a \| '*'`, []string{"a", "|", "*"}},
		{`a {"x":1}`, []string{"a", "{x:1}"}},
	} {
		got, err := splitWords(test.line)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, %v, want %q", test.line, got, err, test.want)
		}
	}
}

func TestSplitWordsRejectsShellSyntax(t *testing.T) {
	for line, want := range map[string]string{
		"a | b":    `'|' needs a shell`,
		"a > b":    `'>' needs a shell`,
		"$HOME/a":  `'$' needs a shell`,
		`"$HOME"`:  `'$' in double quotes needs a shell`,
		"a *.html": `'*' needs a shell`,
		"a; b":     `write sh -c '...'`,
		"a 'b":     "unclosed quote",
		`a "b\"`:   "unclosed quote",
		`a \`:      "no character after the backslash",
	} {
		if words, err := splitWords(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v, want %q", line, words, err, want)
		}
	}
}

func TestVariablesPrecedeTheCommand(t *testing.T) {
	for line, want := range map[string]struct{ env, command string }{
		"./a -x=y":         {"", "./a -x=y"},
		"A=b C_1=d=e ./a":  {"A=b C_1=d=e", "./a"},
		"1A=b ./a":         {"", "1A=b ./a"},
		"-a=b":             {"", "-a=b"},
		"A=b":              {"A=b", ""},
		"=b ./a":           {"", "=b ./a"},
		"GOGC=50 ./a A=b":  {"GOGC=50", "./a A=b"},
		"GOGC=50 A-B=c ./": {"GOGC=50", "A-B=c ./"},
	} {
		env, command := variables(strings.Fields(line))
		if strings.Join(env, " ") != want.env || strings.Join(command, " ") != want.command {
			t.Errorf("%q: got %q and %q", line, env, command)
		}
	}
}
