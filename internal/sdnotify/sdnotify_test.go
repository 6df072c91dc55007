package sdnotify_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/sdnotify"
	"github.com/tarehq/tare/internal/testkit"
)

// Without a service manager nothing is sent. One that does not listen is an error.
func TestMissingManagerIsReported(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	testkit.Check(t, sdnotify.Send(sdnotify.Ready))
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "missing"))
	testkit.Error(t, sdnotify.Send(sdnotify.Ready), "missing")
}

// The watchdog's interval concerns only the process that it names.
func TestWatchdogIntervalIsRead(t *testing.T) {
	for _, c := range []struct {
		us, pid string
		want    time.Duration
	}{
		{"", "", 0}, {"2000000", "", 2 * time.Second}, {"2000000", strconv.Itoa(os.Getpid()), 2 * time.Second},
		{"2000000", "1", 0}, {"-1", "", 0}, {"x", "", 0}, {"9223372036854775807", "", 0},
	} {
		t.Setenv("WATCHDOG_USEC", c.us)
		t.Setenv("WATCHDOG_PID", c.pid)
		testkit.Equal(t, sdnotify.WatchdogInterval(), c.want, c)
	}
}

func TestStatusHasOneLine(t *testing.T) {
	testkit.Equal(t, sdnotify.Status("a\nREADY=1"), "STATUS=a READY=1")
}
