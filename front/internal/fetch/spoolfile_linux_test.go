package fetch_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/testkit"
)

// A spool file is not in its folder, not even for a moment, where the filesystem allows that.
func TestSpoolFilesHaveNoName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	fd, err := unix.Open(dir, unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		t.Skip("the filesystem of temporary files does not support files without a name")
	}
	testkit.Must(t, err)
	_ = unix.Close(fd)
	before := testkit.Value(os.Stat(dir))(t)
	sent := []byte(strings.Repeat("body", 20_000))
	b := testkit.Value(fetch.ReadBody(bytes.NewReader(sent), -1, 0))(t)
	defer b.Close()
	after := testkit.Value(os.Stat(dir))(t)
	testkit.Equal(t, after.ModTime(), before.ModTime(), "changes of the folder")
	r := testkit.Value(b.Open())(t)
	testkit.Equal(t, string(testkit.Value(io.ReadAll(r))(t)), string(sent))
	testkit.Fails(os.Stat(b.FileName()))(t, "no such file")
}
