package dialect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/getopt"
	"github.com/tarehq/tare/internal/testkit"
)

func TestApplySetsFlagsOrNamesUnsupportedOnes(t *testing.T) {
	n := 0
	flags := []getopt.Flag{
		getopt.Value('n', "", func(value string) (err error) {
			n, err = dialect.Number(value, 1, 9)
			return err
		}),
		getopt.Value('X', "", nil),
		{Long: "exact"},
	}
	rest, err := dialect.Apply("tool", []string{"-n3", "url"}, flags, getopt.Anywhere)
	if err != nil || n != 3 || strings.Join(rest, " ") != "url" {
		t.Errorf("got %d, %q, %v", n, rest, err)
	}
	for _, c := range []struct{ line, want string }{
		{"-n10", `tool: flag -n: "10": want an integer from 1 to 9`},
		{"-n", "tool: flag -n: missing value"},
		{"-X p", "tool: flag -X is not supported; tool's unsupported flags are -X, --exact"},
		{"-z", `tool: unknown flag "-z"; tool's unsupported flags are -X, --exact`},
	} {
		_, err := dialect.Apply("tool", strings.Fields(c.line), flags, getopt.Anywhere)
		testkit.Equal(t, fmt.Sprint(err), c.want, c.line)
	}
}

func TestUsageErrorPrintsTextOrReason(t *testing.T) {
	requested := &dialect.Exit{Stdout: "the flags\n", Code: 3}
	testkit.Equal(t, dialect.Usage("tool", errors.Join(requested), 4), error(requested))
	testkit.Equal(t, dialect.Usage("tool", errors.New("tool: no URL"), 4),
		error(&dialect.Exit{Code: 4, Stderr: "tool: no URL\nsee \"tare tool -h\"\n"}))
}
