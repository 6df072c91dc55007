package load

import (
	"encoding/binary"
	"errors"
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

// bell wakes a poller from another goroutine. A ring is not lost if it comes before the wait.
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

// ring wakes the poller. Events are of edges, and each ring is one: nobody need read the count, which
// no run lets overflow.
func (b *waker) wake() {
	if _, err := unix.Write(b.fd, binary.NativeEndian.AppendUint64(nil, 1)); err != nil && !errors.Is(err, unix.EAGAIN) {
		panic("load: BUG: cannot wake a worker: " + err.Error())
	}
}

func (b *waker) close() { _ = unix.Close(b.fd) }
