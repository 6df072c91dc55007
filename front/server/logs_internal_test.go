package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// A reload with another error_log changes where later errors go, also those of loggers that servers
// have already.
func TestErrorLogIsReplaced(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "first"), filepath.Join(dir, "second")}
	var stderr bytes.Buffer
	log := newStderrLog(&stderr)
	e := testkit.Value(openErrorFile(&conf.ErrorLog{Path: paths[0]}, newLogFiles(nil, nil, false), log))(t)
	logger := e.logger()
	logger.Print("one")
	for _, c := range []struct {
		to   *conf.ErrorLog
		line string
		ok   bool
	}{
		{&conf.ErrorLog{Path: paths[0]}, "two", true}, {&conf.ErrorLog{Path: paths[1]}, "three", true},
		{&conf.ErrorLog{Path: filepath.Join(dir, "no", "folder")}, "four", false}, {nil, "five", true},
	} {
		if err := e.replace(context.Background(), c.to); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.to, err)
		}
		logger.Print(c.line)
	}
	testkit.Check(t, e.close(context.Background()))
	log.close()
	for path, want := range map[string]string{
		paths[0]: "one,two", paths[1]: "three,four", "stderr": "tare: five",
	} {
		b, err := os.ReadFile(path)
		if path == "stderr" {
			b, err = stderr.Bytes(), nil
		}
		for _, part := range strings.Split(want, ",") {
			if path != "stderr" {
				part = fmt.Sprintf("[error] %d#0: %s", os.Getpid(), part)
			}
			if !strings.Contains(string(b), part+"\n") {
				t.Errorf("%s: %q, want %q", path, b, part)
			}
		}
		if n := strings.Count(string(b), "\n"); err != nil || n != strings.Count(want, ",")+1 {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
}
