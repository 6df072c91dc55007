package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// As in nginx, a reload reopens logs that were renamed, also if the configuration is the same: a
// script of logrotate may reload the service.
func TestReloadReopensRenamedLogs(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "access.log")
	p := start(t, "access_log "+name+"; return 200 first;")
	p.get("/before")
	awaitText(t, name, "/before")
	testkit.Must(t, os.Rename(name, name+".1"))
	testkit.Must(t, p.server.Reload())
	p.get("/after")
	awaitText(t, name, "/after")
	if err := os.RemoveAll(dir); err != nil { // reopening fails, which does not fail the reload
		t.Fatal(err)
	}
	p.configure("return 200 second;")
	testkit.Must(t, p.server.Reload())
	if _, body := p.get("/"); body != "second" {
		t.Errorf("%q", body)
	}
}

// awaitText waits until a file contains a text.
func awaitText(t *testing.T, name, text string) {
	t.Helper()
	testkit.WaitFor(t, text+" in "+name, func() bool {
		b, _ := os.ReadFile(name) // it may not exist yet
		return strings.Contains(string(b), text)
	})
}
