package programs

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Browse runs a browser without a window and returns what it printed, and what pages wrote to
// the console among its own messages. Its profile is kept in dir.
func Browse(t testing.TB, chromium, dir string, args ...string) (printed, messages string) {
	t.Helper()
	c := testkit.Command(t, chromium, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--user-data-dir=" + filepath.Join(dir, "profile"),
	}, args...)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return string(out), stderr.String()
}

// Screenshot has a page drawn, light or dark, as wide as that, and writes the picture to a file.
func Screenshot(t testing.TB, chromium, dir, page, picture string, dark bool, size string) {
	t.Helper()
	scheme := "1"
	if dark {
		scheme = "0"
	}
	Browse(t, chromium, dir, "--window-size="+size, "--hide-scrollbars", "--blink-settings=preferredColorScheme="+scheme, "--screenshot="+picture, "file://"+page)
}
