package front_test

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"testing"
)

// hinted returns a context whose requests record interim responses.
func hinted(t testing.TB, hints *[]string) context.Context {
	return httptrace.WithClientTrace(t.Context(),
		&httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			*hints = append(*hints, fmt.Sprint(code, " ", h.Get("Link")))
			return nil
		}})
}

// site makes a directory with files, each of which contains its name.
func site(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(name), 0o644))
	}
	return dir
}
