package poll_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

func TestConnectUnixReturnsErrAgainIfBacklogIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for name, want := range map[string]error{path: syscall.ENOENT, "/" + strings.Repeat("s", 107): syscall.EINVAL} {
		testkit.FailsWith(poll.ConnectUnix(name))(t, want, name)
	}
	listener := testkit.Value(syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	defer poll.Close(listener)
	testkit.Must(t, syscall.Bind(listener, &syscall.SockaddrUnix{Name: path}))
	testkit.FailsWith(poll.ConnectUnix(path))(t, syscall.ECONNREFUSED, "without a listener")
	testkit.Must(t, syscall.Listen(listener, 1))
	for range 10 {
		fd, err := poll.ConnectUnix(path)
		if errors.Is(err, poll.ErrAgain) && fd == -1 {
			return
		}
		testkit.Must(t, err)
		defer poll.Close(fd)
	}
	t.Error("a queue for one connection holds ten")
}
