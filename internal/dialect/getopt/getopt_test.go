package getopt_test

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/dialect/getopt"
	"github.com/tarehq/tare/internal/testkit"
)

// parse returns the flags that a command line sets, by their long names if they have one, and the
// other arguments.
func parse(line string, order getopt.Order) (string, error) {
	given := ""
	flag := func(short byte, long string, arity getopt.Arity) getopt.Flag {
		return getopt.Flag{Short: short, Long: long, Arity: arity, Set: func(value string) error {
			given += fmt.Sprintf("%s=%s ", cmp.Or(long, string(short)), value)
			return nil
		}}
	}
	rest, err := getopt.Parse(strings.Fields(line), []getopt.Flag{
		flag('c', "connections", getopt.Required), flag('d', "duration", getopt.Required), flag('k', "", getopt.None),
		flag('L', "latency", getopt.None), flag('l', "log", getopt.Optional), flag(0, "late", getopt.None),
		{Short: 'x', Long: "unsupported"},
	}, order)
	return given + "| " + strings.Join(rest, " "), err
}

// The expectations are the results of running glibc's getopt_long.
func TestParseMatchesGlibc(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "| "},
		{"-c10 -d 5s url", "connections=10 duration=5s | url"},
		{"url -c 10 more", "connections=10 | url more"},
		{"-kLc10 url", "k= latency= connections=10 | url"},
		{"-kc 10 url", "k= connections=10 | url"},
		{"--connections 10 --duration=5s url", "connections=10 duration=5s | url"},
		{"--conn 10 url", "connections=10 | url"},
		{"--late url", "late= | url"},
		{"--lo url", "log= | url"},
		{"--log=file url", "log=file | url"},
		{"-lfile url", "log=file | url"},
		{"-l file", "log= | file"},
		{"-k -- -c 10", "k= | -c 10"},
		{"- -k", "k= | -"},
		{"-c -k", "connections=-k | "},
		{"--duration=", "duration= | "},
	} {
		testkit.Equal(t, testkit.Value(parse(c.line, getopt.Anywhere))(t), c.want, c.line)
	}
}

func TestFlagsMayBeRequiredFirst(t *testing.T) {
	testkit.Equal(t, testkit.Value(parse("-k url -c 10", getopt.First))(t), "k= | url -c 10")
}

func TestErrorsNameTheFlag(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"-y", `unknown flag "-y"`},
		{"-ky1", `unknown flag "-y"`},
		{"--y=1", `unknown flag "--y"`},
		{"-kx", "flag -x is not supported"},
		{"--unsup", "flag --unsup is not supported"},
		{"-c", "flag -c: missing value"},
		{"--conn", "flag --conn: missing value"},
		{"--la", "flag --la is ambiguous: --latency, --late"},
		{"--late=1", `flag --late allows no value, got "1"`},
	} {
		_, err := parse(c.line, getopt.Anywhere)
		testkit.Equal(t, fmt.Sprint(err), c.want, c.line)
		_, unknown := errors.AsType[*getopt.UnknownError](err)
		testkit.Equal(t, unknown, regexp.MustCompile("unknown|not supported").MatchString(c.want), c.line)
	}
}
