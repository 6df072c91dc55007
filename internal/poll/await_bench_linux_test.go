package poll

import (
	"iter"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAwait compares ways in which a proxy on a loop can wait for its upstream: in a goroutine
// that waits in Go's poller, in a coroutine of the loop, and as a state of the loop. The sockets of
// the last two are in the loop's epoll instance. An operation is a request of two system calls, and
// as many of an upstream that responds at once. Requests arrive in batches.
func BenchmarkAwait(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b.Run("goroutine", func(b *testing.B) { benchmarkAwait(b, awaitInGoroutine) })
	b.Run("coroutine", func(b *testing.B) { benchmarkAwait(b, awaitInCoroutine) })
	b.Run("loop", func(b *testing.B) { benchmarkAwait(b, awaitOnLoop) })
}

// awaitBatch is the number of requests of a batch.
const awaitBatch = 16

// awaiting sends requests and receives responses on its connections.
type awaiting struct {
	b         *testing.B
	loop      *Loop
	ours      [awaitBatch]*net.TCPConn
	fds       [awaitBatch]int // of ours, duplicated, so that Go's poller does not watch them
	upstreams [awaitBatch]int
	received  int
}

func (a *awaiting) send(fd int) {
	if _, err := Send(fd, []byte("request")); err != nil {
		a.b.Error(err)
	}
}

// receive reports whether a response has arrived.
func (a *awaiting) receive(fd int) bool {
	var p [16]byte
	_, err := Recv(fd, p[:])
	if err == nil {
		a.received++
	}
	return err == nil
}

// respond does what the upstreams do.
func (a *awaiting) respond() {
	var p [16]byte
	for _, fd := range a.upstreams {
		_, err := Recv(fd, p[:])
		for ; err == ErrAgain; _, err = Recv(fd, p[:]) { //nolint:errorlint // a bare errno
			runtime.Gosched()
		}
		if err != nil {
			a.b.Error(err)
		}
		a.send(fd)
	}
}

// watchOnLoop moves the connections from Go's poller to the loop.
func (a *awaiting) watchOnLoop() {
	for i, fd := range a.fds {
		a.ours[i].Close()
		if err := a.loop.Add(fd, i, 0); err != nil {
			a.b.Fatal(err)
		}
	}
}

// awaitInGoroutine has a goroutine for each request of a batch, to which channels pass requests.
func awaitInGoroutine(a *awaiting) (batch, stop func()) {
	var work [awaitBatch]chan struct{}
	for i, nc := range a.ours {
		raw, err := nc.SyscallConn()
		if err != nil {
			a.b.Fatal(err)
		}
		work[i] = make(chan struct{}, 1)
		go func() {
			sent := false
			step := func(fd uintptr) bool {
				if sent {
					return a.receive(int(fd))
				}
				sent = true
				a.send(int(fd))
				return false
			}
			for range work[i] {
				sent = false
				_ = raw.Read(step)
			}
		}()
	}
	batch = func() {
		for _, c := range work {
			c <- struct{}{}
		}
		runtime.Gosched()
		a.respond()
	}
	return batch, func() {
		for _, c := range work {
			close(c)
		}
	}
}

// awaitInCoroutine has a coroutine for each request of a batch.
func awaitInCoroutine(a *awaiting) (batch, stop func()) {
	a.watchOnLoop()
	var resume [awaitBatch]func() (struct{}, bool)
	var stops [awaitBatch]func()
	for i, fd := range a.fds {
		resume[i], stops[i] = iter.Pull(func(yield func(struct{}) bool) {
			for {
				a.send(fd)
				if !yield(struct{}{}) {
					return
				}
				a.receive(fd)
				if !yield(struct{}{}) {
					return
				}
			}
		})
	}
	batch = func() {
		for _, start := range resume {
			start()
		}
		a.respond()
		events, _, _ := a.loop.Wait()
		for _, e := range events {
			resume[e.ID]()
		}
	}
	return batch, func() {
		for _, end := range stops {
			end()
		}
	}
}

func awaitOnLoop(a *awaiting) (batch, stop func()) {
	a.watchOnLoop()
	return func() {
		for _, fd := range a.fds {
			a.send(fd)
		}
		a.respond()
		events, _, _ := a.loop.Wait()
		for _, e := range events {
			a.receive(a.fds[e.ID])
		}
	}, func() {}
}

func benchmarkAwait(b *testing.B, way func(*awaiting) (batch, stop func())) {
	a := &awaiting{b: b}
	var err error
	if a.loop, err = NewLoop(); err != nil {
		b.Fatal(err)
	}
	defer a.loop.Close()
	for i := range a.ours {
		a.ours[i], a.upstreams[i] = upstreamPair(b)
		a.fds[i] = duplicate(b, a.ours[i])
	}
	batch, stop := way(a)
	defer stop()
	want, before := 0, cpuTime(b)
	for n := 0; n < b.N; n += awaitBatch {
		want += awaitBatch
		batch()
		for a.loop.Yield(); a.received < want && !b.Failed(); {
			a.loop.Yield()
		}
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(want), "cpu-ns/op")
}

// cpuTime returns the CPU time of the process, which other programs disturb less than its duration.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// upstreamPair returns a connection and the descriptor of its other end, which Go's poller does not
// watch.
func upstreamPair(b *testing.B) (ours *net.TCPConn, theirs int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { nc.Close() })
	other, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer other.Close()
	return nc.(*net.TCPConn), duplicate(b, other.(*net.TCPConn))
}

func duplicate(b *testing.B, nc *net.TCPConn) (fd int) {
	raw, err := nc.SyscallConn()
	if err == nil {
		_ = raw.Control(func(from uintptr) { fd, err = Dup(int(from)) })
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = syscall.Close(fd) })
	return fd
}
