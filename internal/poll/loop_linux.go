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
	n      int
	err    error
	look   func(uintptr) bool

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
		l.n, l.err = l.poller.look()
		return l.n > 0 || l.err != nil
	}
	l.ringOnce = l.ring
	return l, nil
}

// Add reports fd under id from now on, as Poller.Add does.
func (l *Loop) Add(fd, id int) error { return l.poller.Add(fd, id) }

// Remove ends that for a descriptor that stays open.
func (l *Loop) Remove(fd int) error {
	return syscall.EpollCtl(l.poller.fd, syscall.EPOLL_CTL_DEL, fd, nil)
}

// Look returns what has happened, without waiting. The events are valid until the
// next call of Look or Park.
func (l *Loop) Look() ([]Event, error) {
	n, err := l.poller.look()
	if err != nil {
		return nil, os.NewSyscallError("epoll_pwait", err)
	}
	return l.poller.translate(n), nil
}

// Park is Look, and waits until something has happened or Close is called.
func (l *Loop) Park() ([]Event, error) {
	err := l.raw.Read(l.look)
	if err == nil && l.err != nil {
		err = os.NewSyscallError("epoll_pwait", l.err)
	}
	if err != nil {
		return nil, err
	}
	return l.poller.translate(l.n), nil
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
