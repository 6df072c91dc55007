package load

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/poll"
)

// timer wakes a poller. The timeouts of the poller itself are in milliseconds, too
// coarse for thousands of requests a second.
type timer struct{ fd int }

func newTimer(p *poll.Poller) (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	if err := p.Add(fd, timerID); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &timer{fd}, nil
}

// set makes the poller wake after d. It replaces what was set before.
func (t *timer) set(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	if err := unix.TimerfdSettime(t.fd, 0, &spec, nil); err != nil {
		panic("load: BUG: cannot set a timer: " + err.Error())
	}
}

func (t *timer) close() { _ = unix.Close(t.fd) }
