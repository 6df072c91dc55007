package load

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/poll"
)

// timer is a timerfd that wakes a poller. The poller's own timeout is in milliseconds, too coarse
// for thousands of requests per second.
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

// set makes the poller wake after d. It replaces the previous setting.
func (t *timer) set(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	if err := unix.TimerfdSettime(t.fd, 0, &spec, nil); err != nil {
		panic("load: BUG: timerfd_settime: " + err.Error())
	}
}

func (t *timer) close() { _ = unix.Close(t.fd) }

// waker wakes a poller from another goroutine by an eventfd. A wake before the wait is not lost.
type waker struct{ fd int }

func newWaker(p *poll.Poller) (*waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	if err := p.Add(fd, wakerID); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &waker{fd}, nil
}

// wake wakes the poller. Events are edge-triggered and each write is an edge, so the counter is
// never read. No run is long enough to overflow it.
func (b *waker) wake() {
	if _, err := unix.Write(b.fd, binary.NativeEndian.AppendUint64(nil, 1)); err != nil &&
		!errors.Is(err, unix.EAGAIN) {
		panic("load: BUG: write eventfd: " + err.Error())
	}
}

func (b *waker) close() { _ = unix.Close(b.fd) }
