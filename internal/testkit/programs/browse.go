package programs

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// WithQUIC is an argument of Browse that enables HTTP/3.
const WithQUIC = "--enable-quic"

// Browse runs a headless browser. It returns the browser's output and its messages, which include
// what pages wrote to the console. The browser's profile is in dir.
func Browse(t testing.TB, chromium, dir string, args ...string) (printed, messages string) {
	t.Helper()
	if !slices.Contains(args, WithQUIC) {
		args = append([]string{"--disable-quic"}, args...)
	}
	c := testkit.Command(t, chromium, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--enable-logging=stderr",
		"--user-data-dir=" + filepath.Join(dir, "profile"),
	}, args...)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return string(out), stderr.String()
}

// Screenshot renders a page, light or dark, in a window of the given size, and writes the picture
// to a file.
func Screenshot(t testing.TB, chromium, dir, page, picture string, dark bool, size string) {
	t.Helper()
	scheme := "1"
	if dark {
		scheme = "0"
	}
	Browse(t, chromium, dir, "--window-size="+size, "--hide-scrollbars",
		"--blink-settings=preferredColorScheme="+scheme, "--screenshot="+picture, "file://"+page)
}
