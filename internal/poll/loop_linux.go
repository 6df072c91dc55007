package poll

import (
	"os"
	"syscall"
	"unsafe"
)

// Loop is a Poller for a loop that shares its processor with goroutines: it waits
// through Go's own poller, in which its epoll descriptor is registered, and so holds
// neither a thread nor a P while it does. Blocking in epoll_wait instead would have
// the scheduler find the thread missing, and wake another, each time.
//
// It is for one goroutine at a time.
type Loop struct {
	poller *Poller
	file   *os.File // the epoll descriptor's owner; it must outlive its use
	raw    syscall.RawConn
	look   func(uintptr) bool
	looks  int // of Go's poller, since Wait was called
	n      int // what the last one found
	err    error

	bell     *os.File // an eventfd, for Yield
	bellRaw  syscall.RawConn
	rung     bool
	ringOnce func(uintptr) bool
}

// NewLoop returns a Loop. Close it when it is no longer needed.
func NewLoop() (*Loop, error) {
	p, err := New()
	if err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(p.fd, true); err != nil {
		_ = p.Close()
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &Loop{poller: p, file: os.NewFile(uintptr(p.fd), "epoll")}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		_ = l.Close()
		return nil, err
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		_ = l.Close()
		return nil, os.NewSyscallError("eventfd2", errno)
	}
	l.bell = os.NewFile(fd, "eventfd")
	if l.bellRaw, err = l.bell.SyscallConn(); err != nil {
		_ = l.Close()
		return nil, err
	}
	// Made once: a closure for each wait would be garbage for each wait.
	l.look = func(uintptr) bool {
		l.looks++
		l.n, l.err = l.poller.look()
		return l.n > 0 || l.err != nil
	}
	l.ringOnce = l.ring
	return l, nil
}

// Add reports under id from now on when something arrives on fd. Closing fd ends that. Room for
// output is not told of: a unix socket gets some whenever its peer reads, and each answer would
// be followed by an event that means nothing.
func (l *Loop) Add(fd, id int) error {
	return l.poller.AddInput(fd, id)
}

// AddOutput reports from now on also when there is room for output on a descriptor that was
// added, and once if there is.
func (l *Loop) AddOutput(fd, id int) error { return l.poller.AddOutput(fd, id) }

// Remove ends that for a descriptor that stays open.
func (l *Loop) Remove(fd int) error {
	return syscall.EpollCtl(l.poller.fd, syscall.EPOLL_CTL_DEL, fd, nil)
}

// Wait returns what has happened, and waits if nothing has, until something does or
// Close is called. It reports whether it did wait. The events are valid until the next
// call.
func (l *Loop) Wait() (events []Event, waited bool, err error) {
	l.looks = 0
	// Go's poller says only what happens after Read was called, so that Read must look
	// before it waits. To look ourselves first would be to look twice.
	err = l.raw.Read(l.look)
	if err == nil && l.err != nil {
		err = os.NewSyscallError("epoll_pwait", l.err)
	}
	if err != nil {
		return nil, l.looks > 1, err
	}
	return l.poller.translate(l.n), l.looks > 1, nil
}

// Yield lets all other goroutines of the processor run, also those whose sockets
// have become ready meanwhile: a plain Gosched would not have Go look for those
// while its caller stays runnable.
func (l *Loop) Yield() {
	l.rung = false
	_ = l.bellRaw.Read(l.ringOnce)
}

func (l *Loop) ring(fd uintptr) bool {
	if l.rung {
		return true
	}
	l.rung = true
	one := [8]byte{1}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&one[0])), uintptr(len(one)))
	return false
}

// Close ends a Park that waits, and releases the Loop. The descriptors it reported
// stay open.
func (l *Loop) Close() error {
	if l.bell != nil {
		_ = l.bell.Close()
	}
	return l.file.Close()
}
