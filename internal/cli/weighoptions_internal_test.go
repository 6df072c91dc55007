package cli

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/testkit"
)

// labOptions returns the exported constants of type lab.Option. The others are keys of files only.
func labOptions(t *testing.T) (all []lab.Option) {
	f := testkit.Value(parser.ParseFile(token.NewFileSet(), "../lab/option.go", nil, 0))(t)
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && s.Names[0].IsExported() {
			text := testkit.Value(strconv.Unquote(s.Values[0].(*ast.BasicLit).Value))(t)
			all = append(all, lab.Option(text))
		}
		return true
	})
	return all
}

// Each option of the lab has a flag of weigh, by which errors name it.
func TestOptionsOfTheLabHaveFlags(t *testing.T) {
	c := weighCommand(Env{})
	for _, o := range labOptions(t) {
		for name := range strings.SplitSeq(flagOf(o), ", ") {
			if c.Flags().Lookup(strings.TrimPrefix(name, "--")) == nil {
				t.Errorf("option %q: weigh has no flag %s", o, name)
			}
		}
	}
}

func TestErrorsOfTheLabNameFlags(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&lab.UsageError{Option: lab.OptionMeasure, What: "want a time"}, "--measure: want a time"},
		{fmt.Errorf("wrapped: %w", &lab.UsageError{Option: lab.OptionBuildA, What: "no command"}), "--a: no command"},
		{&lab.UsageError{What: "no command"}, "no command"},
		{fmt.Errorf("x: %w", lab.ErrNoExperiment), "x: no such experiment; --list shows all"},
		{errors.New("out of paper"), "out of paper"},
	} {
		testkit.Equal(t, withFlags(test.err).Error(), test.want)
	}
}

// Rows of targets have one load, from this process: flags that would change it are rejected.
func TestTargetsRejectOtherGenerators(t *testing.T) {
	for _, name := range []string{"on", "address", "agent-program", "rate"} {
		var flags weighFlags
		c := &cobra.Command{}
		flags.define(c)
		testkit.Must(t, flags.rejectOthers(lab.Targets, lab.TargetsDir))
		testkit.Must(t, c.Flags().Set(name, "10"))
		testkit.Error(t, flags.rejectOthers(lab.Targets, lab.TargetsDir), "--"+name+" does not apply", name)
	}
}

// The report repeats the flags that are set, in one order and form.
func TestReportsRepeatFlags(t *testing.T) {
	var flags weighFlags
	c := &cobra.Command{}
	flags.define(c)
	if err := c.ParseFlags(strings.Fields("--fcgi --env A=b,c --out x --seed 7 --rate 50% " +
		"--connections 8,64 --within 1m --until 2.50 --blocks 3 --only a,b --quick --full=false --env D=e " +
		"--fail-if cpu>+3% --on h --cores 1,all --measure 1s")); err != nil {
		t.Fatal(err)
	}
	const want = "--quick --only a,b --blocks 3 --until 2.5 --within 1m0s --measure 1s --cores 1,all " +
		"--connections 8,64 --rate 50% --on h"
	testkit.Equal(t, strings.Join(flags.commandLine(), " "), want)
	const own = "--env A=b,c --env D=e --fail-if cpu>+3% --fcgi"
	testkit.Equal(t, strings.Join(flags.own.commandLine(), " "), own)
}

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
		testkit.Fails(splitWords(line))(t, want, line)
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
