package front_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// A file that exists only compressed is served to clients that accept it, and with always to all.
// gunzip decompresses it for the others.
func TestPrecompressedFileNeedsNoOther(t *testing.T) {
	dir := site(t, "a.txt", "b.txt.gz.br")
	packed := gzipped(t, "packed")
	for _, name := range []string{"a.txt.gz", "b.txt.gz"} {
		must(t, os.WriteFile(filepath.Join(dir, name), packed, 0o600))
	}
	on := conf.Files{Root: conf.Text(dir), Precompressed: []string{"gzip", "br"}}
	always := conf.Files{Root: conf.Text(dir), PrecompressedAlways: []string{"gzip"}}
	for i, test := range []struct {
		files          conf.Files
		gunzip         bool
		path, accepted string
		status         int
		body, coding   string
	}{
		{on, false, "/b.txt", "gzip", 200, string(packed), "gzip"},
		{on, false, "/b.txt", "br, gzip;q=0.5", 200, string(packed), "gzip"},
		{on, false, "/b.txt", "br", 404, "", ""},
		{on, false, "/b.txt", "", 404, "", ""},
		{on, false, "/c.txt", "gzip", 404, "", ""},
		{always, false, "/a.txt", "", 200, string(packed), "gzip"},
		{always, false, "/b.txt", "", 200, string(packed), "gzip"},
		{always, true, "/b.txt", "", 200, "packed", ""},
		{always, true, "/b.txt", "gzip", 200, string(packed), "gzip"},
		{always, true, "/c.txt", "gzip", 404, "", ""},
	} {
		s := conf.Settings{Files: test.files}
		if test.gunzip {
			s.Gunzip = &conf.Gzip{}
		}
		a := serveHandler(t, newFront(t, oneHost(conf.Location{Path: "/", Settings: &s})))
		got := a.get(test.path, "Accept-Encoding", test.accepted)
		if got.status != test.status || got.header.Get("Content-Encoding") != test.coding ||
			test.status == 200 && (got.body != test.body || len(got.header["Vary"]) > 1) {
			t.Errorf("%d: %v, want %d %q", i, got, test.status, test.body)
		}
		if others := test.path == "/b.txt" && test.files.PrecompressedAlways == nil; others &&
			got.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%d: a cache may send %v to clients that accept gzip", i, got)
		}
		if got.status != 200 || test.gunzip || test.coding == "" {
			continue
		}
		line := "\r\nContent-Type: " + got.header.Get("Content-Type") + "\r\n"
		got = a.get(test.path, "Accept-Encoding", test.accepted, "Range", "bytes=0-0,2-2")
		if got.status != 206 || strings.Count(got.body, line) != 2 {
			t.Errorf("%d: the parts have another type: %v", i, got)
		}
	}
}
