// Package sdnotify sends states to the service manager, by the protocol of sd_notify(3). It has no
// effect if the variable NOTIFY_SOCKET is not set, and on systems without unix datagram sockets.
package sdnotify

import (
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// States, as sd_notify(3) describes them.
const (
	Ready     = "READY=1"
	Reloading = "RELOADING=1"
	Stopping  = "STOPPING=1"
	Watchdog  = "WATCHDOG=1"
)

// sendTimeout limits how long a full queue of the service manager holds up the program.
const sendTimeout = 5 * time.Second

// MainPID returns the state that names the main process of the service.
func MainPID(pid int) string { return "MAINPID=" + strconv.Itoa(pid) }

// Status returns the state with a text for users, in one line.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// MonotonicUsec returns the state that must accompany Reloading: the time since boot.
func MonotonicUsec() string { return "MONOTONIC_USEC=" + strconv.FormatInt(monotonicUs(), 10) }

// Send sends states, each a NAME=VALUE, in one message. The service manager applies them together.
func Send(states ...string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	_, err = c.Write([]byte(strings.Join(states, "\n")))
	return err
}

// WatchdogTicks returns a channel that receives a value when Watchdog is due: twice in each
// interval. It is nil if the service manager does not expect it.
func WatchdogTicks() <-chan time.Time {
	if interval := WatchdogInterval(); interval > 0 {
		return time.Tick(max(interval/2, 1))
	}
	return nil
}

// WatchdogInterval returns how often the service manager expects Watchdog from this process, or 0
// if it does not (sd_watchdog_enabled(3)).
func WatchdogInterval() time.Duration {
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	pid := os.Getenv("WATCHDOG_PID")
	const maxUs = int64(1<<63-1) / int64(time.Microsecond)
	if err != nil || us <= 0 || us > maxUs || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}
