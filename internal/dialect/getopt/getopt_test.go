package getopt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/dialect/getopt"
)

var flags = []getopt.Flag{
	{Short: 'c', Long: "connections", Arity: getopt.Required},
	{Short: 'd', Long: "duration", Arity: getopt.Required},
	{Short: 'k'},
	{Short: 'L', Long: "latency"},
	{Short: 'l', Long: "log", Arity: getopt.Optional},
	{Long: "late"},
}

// The expectations are the results of running glibc's getopt_long.
func TestParseMatchesGlibc(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "|"},
		{"-c10 -d 5s url", "-c=10 -d=5s|url"},
		{"url -c 10 more", "-c=10|url more"},
		{"-kLc10 url", "-k= -L= -c=10|url"},
		{"-kc 10 url", "-k= -c=10|url"},
		{"--connections 10 --duration=5s url", "--connections=10 --duration=5s|url"},
		{"--conn 10 url", "--conn=10|url"},
		{"--late url", "--late=|url"},
		{"--lo url", "--lo=|url"},
		{"--log=file url", "--log=file|url"},
		{"-lfile url", "-l=file|url"},
		{"-l file", "-l=|file"},
		{"-k -- -c 10", "-k=|-c 10"},
		{"- -k", "-k=|-"},
		{"-c -k", "-c=-k|"},
		{"--duration=", "--duration=|"},
	} {
		given, rest, err := getopt.Parse(strings.Fields(c.line), flags, getopt.Anywhere)
		if got := show(given, rest); err != nil || got != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.line, got, err, c.want)
		}
	}
}

func show(given []getopt.Occurrence, rest []string) string {
	var parts []string
	for _, g := range given {
		parts = append(parts, fmt.Sprintf("%s=%s", g.Spelling, g.Value))
	}
	return strings.Join(parts, " ") + "|" + strings.Join(rest, " ")
}

func TestFlagsMayBeRequiredFirst(t *testing.T) {
	given, rest, err := getopt.Parse([]string{"-k", "url", "-c", "10"}, flags, getopt.First)
	if got := show(given, rest); err != nil || got != "-k=|url -c 10" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestErrorsNameTheFlag(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"-x", `unknown flag "-x"`},
		{"-kx1", `unknown flag "-x"`},
		{"--x=1", `unknown flag "--x"`},
		{"-c", "flag -c: missing value"},
		{"--conn", "flag --conn: missing value"},
		{"--la", "flag --la is ambiguous: --latency, --late"},
		{"--late=1", `flag --late allows no value, got "1"`},
	} {
		_, _, err := getopt.Parse(strings.Fields(c.line), flags, getopt.Anywhere)
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: got %v, want %q", c.line, err, c.want)
		}
		if _, unknown := errors.AsType[*getopt.UnknownError](err); unknown != strings.HasPrefix(c.want, "unknown") {
			t.Errorf("%q: unknown: %v", c.line, unknown)
		}
	}
}
