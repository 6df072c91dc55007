package contender

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
)

// Only programs are read again: a file that a server sends may be large.
func TestPagesOfProgramsAreDropped(t *testing.T) {
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		t.Skip("the files of a tmpfs are in memory only: ", err)
	}
	for name, start := range map[string]string{"program": "\x7fELF", "script": "#!/bin/sh\n"} {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, append([]byte(start), make([]byte, 1<<20)...), 0o755))
		(&part{words: []string{"env", name}, folder: dir}).dropPages()
		f, err := os.Open(path)
		testkit.Must(t, err)
		defer f.Close()
		var pages unix.Cachestat_t
		if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &pages, 0); err != nil {
			t.Skip("cachestat(2) needs Linux 6.5: ", err)
		}
		if isKept := pages.Cache > 0; isKept != (name == "script") {
			t.Errorf("%s: %d pages are in memory", name, pages.Cache)
		}
	}
}
