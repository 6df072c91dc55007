package poll

import (
	"cmp"
	"os"
	"syscall"
	"unsafe"
)

// Loop is a Poller for a loop that shares its processor with goroutines. It waits through Go's own
// poller, in which its epoll descriptor is registered. While it waits there it holds neither a
// thread nor a P. If it blocked in epoll_wait instead, the scheduler would each time wake another
// thread: an exchange between two goroutines takes 10.9 µs this way, and 35.5 that way
// (BenchmarkPingPong).
//
// Only one goroutine may use it at a time.
type Loop struct {
	poller    *Poller
	file      *os.File // owns the epoll descriptor, and must stay reachable while that is used
	raw       syscall.RawConn
	checkOnce func(uintptr) bool
	checks    int // calls of check since Wait was called
	n         int // events that the last check found
	err       error

	wakeup     *os.File // an eventfd, for Yield
	wakeupRaw  syscall.RawConn
	signaled   bool
	signalOnce func(uintptr) bool
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
	l.wakeup = os.NewFile(fd, "eventfd")
	if l.wakeupRaw, err = l.wakeup.SyscallConn(); err != nil {
		_ = l.Close()
		return nil, err
	}
	// Made once, because a closure for each wait would be garbage.
	l.checkOnce = func(uintptr) bool {
		l.checks++
		l.n, l.err = l.poller.check()
		return l.n > 0 || l.err != nil
	}
	l.signalOnce = l.signal
	return l, nil
}

// Add makes Wait report under id and tag when input arrives on fd, until fd is closed. It does not
// report room for output: a unix socket gets room whenever its peer reads, so that each response
// would cause a useless event.
func (l *Loop) Add(fd, id int, tag uint32) error {
	return l.poller.control(syscall.EPOLL_CTL_ADD, fd, id, tag, input)
}

// AddOutput makes Wait report also when a descriptor that was added has room for output, and once
// if it has room now.
func (l *Loop) AddOutput(fd, id int, tag uint32) error {
	return l.poller.control(syscall.EPOLL_CTL_MOD, fd, id, tag, input|syscall.EPOLLOUT)
}

// Watch makes Serve report input of a descriptor and its end, or room for output, as long as there is
// some. isAdded reports whether an earlier call has added the descriptor.
func (l *Loop) Watch(fd, id int, in, out, isAdded bool) error {
	op, events := syscall.EPOLL_CTL_ADD, uint32(0)
	if isAdded {
		op = syscall.EPOLL_CTL_MOD
	}
	if in {
		events |= syscall.EPOLLIN | syscall.EPOLLRDHUP
	}
	if out {
		events |= syscall.EPOLLOUT
	}
	return l.poller.control(op, fd, id, 0, events)
}

// Remove stops the reports for a descriptor that stays open.
func (l *Loop) Remove(fd int) error {
	return l.poller.control(syscall.EPOLL_CTL_DEL, fd, 0, 0, 0)
}

// Wait returns the events since the last call. If there are none, it waits for some, or for Close,
// and sets waited. The events are valid until the next call.
func (l *Loop) Wait() (events []Event, waited bool, err error) {
	l.checks = 0
	// Go's poller reports only events after Read was called, so that Read must check before it
	// waits. Checking here first would mean checking twice.
	err = l.raw.Read(l.checkOnce)
	if err == nil && l.err != nil {
		err = os.NewSyscallError("epoll_pwait", l.err)
	}
	if err != nil {
		return nil, l.checks > 1, err
	}
	return l.poller.translate(l.n), l.checks > 1, nil
}

// Serve calls handle with events until Close, for descriptors of Watch. waited reports that Serve has
// waited for them, and hasMore that handle may have left some of their input.
//
// Unlike Wait it stays in one call of Read. Go's poller then remembers what happens after the last
// check, so that a single event of which nothing is left needs no check before the next wait. Such
// events are the usual ones of a process with little to do. One system call is saved for each.
func (l *Loop) Serve(handle func(events []Event, waited bool) (hasMore bool)) error {
	inARow := 0 // waits without a check, which may have returned at once
	err := l.raw.Read(func(uintptr) bool {
		for waited := inARow < mostUnchecked; ; waited = false {
			n, err := l.poller.check()
			if err != nil {
				l.err = os.NewSyscallError("epoll_pwait", err)
				return true
			}
			if n == 0 {
				inARow = 0
				return false
			}
			if hasMore := handle(l.poller.translate(n), waited); !hasMore && n == 1 && inARow < mostUnchecked {
				inARow++
				return false
			}
		}
	})
	return cmp.Or(err, l.err)
}

// mostUnchecked is how many events in a row need no check: without checks, a busy loop would not
// notice that it never waits.
const mostUnchecked = 32

// Yield lets all other goroutines of the processor run, including those whose sockets have become
// ready meanwhile. runtime.Gosched would not poll for those while its caller stays runnable.
func (l *Loop) Yield() {
	l.signaled = false
	_ = l.wakeupRaw.Read(l.signalOnce)
}

func (l *Loop) signal(fd uintptr) bool {
	if l.signaled {
		return true
	}
	l.signaled = true
	one := [8]byte{1}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&one[0])), uintptr(len(one)))
	return false
}

// Close ends a Wait that waits, and releases the Loop. The descriptors that were added stay open.
func (l *Loop) Close() error {
	if l.wakeup != nil {
		_ = l.wakeup.Close()
	}
	return l.file.Close()
}
