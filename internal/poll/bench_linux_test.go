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

// BenchmarkTransfer sends and receives a byte, with and without informing the scheduler of the
// calls.
func BenchmarkTransfer(b *testing.B) {
	informed := func(trap uintptr, fd int, p []byte) {
		if _, _, errno := syscall.Syscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0); errno != 0 {
			b.Fatal(errno)
		}
	}
	b.Run("untold", func(b *testing.B) {
		pair, p := socketpair(b), make([]byte, 1)
		for b.Loop() {
			if _, err := Send(pair[0], p); err != nil {
				b.Fatal(err)
			}
			if _, err := Recv(pair[1], p); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("informed", func(b *testing.B) {
		pair, p := socketpair(b), make([]byte, 1)
		for b.Loop() {
			informed(sysSendto, pair[0], p)
			informed(sysRecvfrom, pair[1], p)
		}
	})
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
	b.Run("ppoll", func(b *testing.B) {
		for b.Loop() {
			if !Quiet(pair[0]) {
				b.Fatal("not quiet")
			}
		}
	})
	b.Run("peek", func(b *testing.B) {
		for b.Loop() {
			_, err := transfer(sysRecvfrom, pair[0], p, syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
			if err != ErrAgain { //nolint:errorlint // a bare errno
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWait measures a Poller that has an event, with a first call that does not wait, and with
// one call that may wait.
func BenchmarkWait(b *testing.B) {
	for _, way := range []struct {
		name string
		wait func(*Poller) (int, error)
	}{
		{"look-first", func(p *Poller) (int, error) {
			events, err := p.Wait(50 * time.Millisecond)
			return len(events), err
		}},
		{"wait-at-once", func(p *Poller) (int, error) { return p.sleep(50 * time.Millisecond) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			p := testkit.Value(New())(b)
			defer p.Close()
			pair := socketpair(b)
			// Level-triggered, so that the event is there each time.
			if err := syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, pair[0],
				&syscall.EpollEvent{Events: syscall.EPOLLOUT}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if n, err := way.wait(p); n != 1 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// untagged adds descriptors without a tag.
type untagged struct{ *Loop }

func (l untagged) Add(fd, id int) error { return l.Loop.Add(fd, id, 0) }

// BenchmarkPingPong has two goroutines exchange bytes. Each waits in Go's poller as a Loop does, or
// in a system call.
func BenchmarkPingPong(b *testing.B) {
	type waiter interface {
		Add(fd, id int) error
		Close() error
	}
	for _, way := range []struct {
		name string
		make func() (w waiter, wait func() error, err error)
	}{
		{"go-poller", func() (waiter, func() error, error) {
			l, err := NewLoop()
			return untagged{l}, func() error { _, _, err := l.Wait(); return err }, err
		}},
		{"system-call", func() (waiter, func() error, error) {
			p, err := New()
			return p, func() error { _, err := p.Wait(time.Second); return err }, err
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
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
			var waits [2]func() error
			for i := range waits {
				w, wait, err := way.make()
				testkit.Must(b, err)
				defer w.Close()
				testkit.Must(b, w.Add(pair[i], pair[i]))
				waits[i] = wait
			}
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
