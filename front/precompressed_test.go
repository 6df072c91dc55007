package front_test

import (
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// Each coding has a directive of its own.
func TestPrecompressedCodings(t *testing.T) {
	dir := site(t, "a.txt", "a.txt.gz", "a.txt.br", "a.txt.zst")
	for coding, want := range map[string]string{
		"gzip": "a.txt.gz", "br": "a.txt.br", "zstd": "a.txt.zst", "": "a.txt",
	} {
		f := conf.Files{Root: conf.Text(dir)}
		if coding != "" {
			f.Precompressed = []string{coding}
		}
		a := serveHandler(t, newFront(t, oneHost(conf.Location{Path: "/", Settings: conf.Settings{Files: f}}), quiet()))
		got := a.get("/a.txt", "Accept-Encoding", "gzip, br, zstd")
		if got.body != want || got.header.Get("Content-Encoding") != coding {
			t.Errorf("%q: %v, want %s", coding, got, want)
		}
		if got := a.get("/a.txt"); got.body != "a.txt" || got.header.Get("Content-Encoding") != "" {
			t.Errorf("%q: %v", coding, got)
		}
	}
}
