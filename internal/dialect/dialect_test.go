package dialect_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/getopt"
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
		if _, err := dialect.Apply("tool", strings.Fields(c.line), flags, getopt.Anywhere); err == nil ||
			err.Error() != c.want {
			t.Errorf("%q: got %v, want %s", c.line, err, c.want)
		}
	}
}

func TestUsageErrorPrintsTextOrReason(t *testing.T) {
	var stdout, stderr strings.Builder
	requested := &dialect.UsageError{Tool: "tool", Text: "the flags\n", Code: 3}
	err := dialect.Usage("tool", errors.Join(requested), 4)
	if own, ok := errors.AsType[*dialect.UsageError](err); !ok || own.End(&stdout, &stderr) != 3 ||
		stdout.String() != "the flags\n" || stderr.Len() > 0 {
		t.Errorf("got %v, %q and on stderr %q", err, &stdout, &stderr)
	}
	stdout.Reset()
	err = dialect.Usage("tool", errors.New("tool: no URL"), 4)
	if own, ok := errors.AsType[*dialect.UsageError](err); !ok || own.End(&stdout, &stderr) != 4 || stdout.Len() > 0 ||
		stderr.String() != "tool: no URL\nsee \"tare tool -h\"\n" {
		t.Errorf("got %v, %q and on stderr %q", err, &stdout, &stderr)
	}
}
