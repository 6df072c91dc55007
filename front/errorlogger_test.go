package front_test

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// A reload with another ErrorLog changes where later errors go, also those of loggers that servers
// have already.
func TestErrorLogIsReplaced(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "first"), filepath.Join(dir, "second")}
	config := func(to *conf.ErrorLog) conf.Config {
		return conf.Config{Hosts: []conf.Host{{}}, ErrorLog: to}
	}
	var program bytes.Buffer
	h, err := front.New(config(&conf.ErrorLog{Path: paths[0]}), front.LogErrors(log.New(&program, "tare: ", 0)))
	testkit.Must(t, err)
	logger := h.ErrorLogger()
	logger.Print("one")
	for _, c := range []struct {
		to   *conf.ErrorLog
		line string
		ok   bool
	}{
		{&conf.ErrorLog{Path: paths[0]}, "two", true}, {&conf.ErrorLog{Path: paths[1]}, "three", true},
		{&conf.ErrorLog{Path: filepath.Join(dir, "no", "folder")}, "four", false}, {nil, "five", true},
	} {
		testkit.Equal(t, h.Reload(config(c.to)) == nil, c.ok, c.to)
		logger.Print(c.line)
	}
	testkit.Must(t, h.Close())
	for path, want := range map[string]string{
		paths[0]: "one,two", paths[1]: "three,four", "program": "tare: five",
	} {
		b, err := os.ReadFile(path)
		if path == "program" {
			b, err = program.Bytes(), nil
		}
		for _, part := range strings.Split(want, ",") {
			if path != "program" {
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
