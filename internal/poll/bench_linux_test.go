package poll

import (
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/tarehq/tare/internal/testkit"
)

func socketpair(b *testing.B) [2]int {
	pair := testkit.Value(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0))(b)
	b.Cleanup(func() { Close(pair[0]); Close(pair[1]) })
	return pair
}

// loop measures calls of f, which reports whether it has succeeded.
func loop(b *testing.B, name string, f func() bool) {
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			if !f() {
				b.Fatal("it fails")
			}
		}
	})
}

// BenchmarkTransfer sends and receives a byte, with and without informing the scheduler of the
// calls.
func BenchmarkTransfer(b *testing.B) {
	pair, p := socketpair(b), make([]byte, 1)
	loop(b, "untold", func() bool {
		_, sendErr := Send(pair[0], p)
		_, err := Recv(pair[1], p)
		return sendErr == nil && err == nil
	})
	informed := func(trap uintptr, fd int) bool {
		_, _, errno := syscall.Syscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0)
		return errno == 0
	}
	loop(b, "informed", func() bool { return informed(sysSendto, pair[0]) && informed(sysRecvfrom, pair[1]) })
}

// BenchmarkRecvNothing measures a Recv when nothing has arrived.
func BenchmarkRecvNothing(b *testing.B) {
	pair, p := socketpair(b), make([]byte, 1)
	for b.Loop() {
		if _, err := Recv(pair[0], p); err != ErrAgain { //nolint:errorlint // a bare errno
			b.Fatal(err)
		}
	}
}

// BenchmarkQuiet compares ways to check a socket on which nothing has arrived.
func BenchmarkQuiet(b *testing.B) {
	pair, p := socketpair(b), make([]byte, 1)
	loop(b, "ppoll", func() bool { return Quiet(pair[0]) })
	loop(b, "peek", func() bool {
		_, err := transfer(sysRecvfrom, pair[0], p, syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
		return err == ErrAgain //nolint:errorlint // a bare errno
	})
}

// BenchmarkWait measures a Poller that has an event, with a first call that does not wait, and with
// one call that may wait.
func BenchmarkWait(b *testing.B) {
	p := testkit.Value(New())(b)
	defer p.Close()
	// Level-triggered, so that the event is there each time.
	testkit.Must(b, syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, socketpair(b)[0],
		&syscall.EpollEvent{Events: syscall.EPOLLOUT}))
	loop(b, "look-first", func() bool {
		events, err := p.Wait(50 * time.Millisecond)
		return len(events) == 1 && err == nil
	})
	loop(b, "wait-at-once", func() bool {
		n, err := p.sleep(50 * time.Millisecond)
		return n == 1 && err == nil
	})
}

// BenchmarkPingPong has two goroutines exchange bytes. Each waits in Go's poller as a Loop does, or
// in a system call.
func BenchmarkPingPong(b *testing.B) {
	for name, watch := range map[string]func(b *testing.B, fd int) (wait func() error){
		"go-poller": func(b *testing.B, fd int) (wait func() error) {
			l := testkit.Value(NewLoop())(b)
			b.Cleanup(func() { l.Close() })
			testkit.Must(b, l.Add(fd, fd, 0))
			return func() error { _, _, err := l.Wait(); return err }
		},
		"system-call": func(b *testing.B, fd int) (wait func() error) {
			p := testkit.Value(New())(b)
			b.Cleanup(func() { p.Close() })
			testkit.Must(b, p.Add(fd, fd))
			return func() error { _, err := p.Wait(time.Second); return err }
		},
	} {
		b.Run(name, func(b *testing.B) {
			pair := socketpair(b)
			turn := func(fd int, wait func() error) {
				p := make([]byte, 1)
				for {
					_, err := Recv(fd, p)
					if err == nil {
						return
					}
					if err != ErrAgain || wait() != nil { //nolint:errorlint // a bare errno
						return
					}
				}
			}
			waits := [2]func() error{watch(b, pair[0]), watch(b, pair[1])}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					p := []byte{0}
					turn(pair[1], waits[1])
					if _, err := Send(pair[1], p); err != nil {
						return
					}
				}
			}()
			p := []byte{0}
			for b.Loop() {
				if _, err := Send(pair[0], p); err != nil {
					b.Fatal(err)
				}
				turn(pair[0], waits[0])
			}
			_ = syscall.Shutdown(pair[0], syscall.SHUT_RDWR)
			<-done
		})
	}
}
