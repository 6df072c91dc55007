package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// unixPair returns both ends of a connection over a unix socket.
func unixPair(t *testing.T) (ours, theirs *net.UnixConn) {
	t.Helper()
	l := testkit.Value(net.Listen("unix", t.TempDir()+"/s"))(t)
	defer l.Close()
	a, b := testkit.Connect(t, l, new(net.Dialer))
	return a.(*net.UnixConn), b.(*net.UnixConn)
}

// whileWriting returns what a Write returns during which something happens.
func whileWriting(large []byte, happens func(ours net.Conn, theirs *net.UnixConn)) func(net.Conn, *net.UnixConn) []any {
	return func(ours net.Conn, theirs *net.UnixConn) []any {
		go func() {
			_, _ = theirs.Read(make([]byte, 1))
			happens(ours, theirs)
		}()
		n, err := ours.Write(large)
		return []any{n > 0 && n < len(large), err}
	}
}

// A unixConn does what the connection does that it replaces.
func TestUnixConnIsLikeNetUnixConn(t *testing.T) {
	const much = 4 << 20 // more than a socket holds
	large := bytes.Repeat([]byte("0123456789abcdef"), much/16)
	past := time.Unix(1, 0)
	soon := func() time.Time { return time.Now().Add(5 * time.Millisecond) }
	for name, test := range map[string]func(ours net.Conn, theirs *net.UnixConn) []any{
		"bytes": func(ours net.Conn, theirs *net.UnixConn) []any {
			go func() {
				for _, c := range large[:1000] {
					_, _ = theirs.Write([]byte{c})
				}
			}()
			b := make([]byte, 1000)
			n, err := io.ReadFull(ours, b)
			return []any{n, err, bytes.Equal(b, large[:1000])}
		},
		"empty": func(ours net.Conn, _ *net.UnixConn) []any {
			n, err := ours.Read(nil)
			m, wrote := ours.Write(nil)
			return []any{n, err, m, wrote}
		},
		"end": func(ours net.Conn, theirs *net.UnixConn) []any {
			theirs.Close()
			n, err := ours.Read(make([]byte, 10))
			m, wrote := ours.Write([]byte("x"))
			return []any{n, err, m, wrote}
		},
		"half end": func(ours net.Conn, theirs *net.UnixConn) []any {
			_ = theirs.CloseWrite()
			n, err := ours.Read(make([]byte, 10))
			m, wrote := ours.Write([]byte("x"))
			ended := ours.(interface{ CloseWrite() error }).CloseWrite()
			got, _ := io.ReadAll(theirs)
			_, after := ours.Write([]byte("x"))
			return []any{n, err, m, wrote, ended, string(got), after}
		},
		"reset": func(ours net.Conn, theirs *net.UnixConn) []any {
			_, wrote := ours.Write([]byte("x"))
			theirs.Close()
			n, err := ours.Read(make([]byte, 10))
			return []any{wrote, n, err}
		},
		"late read": func(ours net.Conn, theirs *net.UnixConn) []any {
			set := ours.SetReadDeadline(past)
			_, err := ours.Read(make([]byte, 10))
			_ = ours.SetReadDeadline(soon())
			_, later := ours.Read(make([]byte, 10))
			_ = ours.SetReadDeadline(time.Time{})
			_, _ = theirs.Write([]byte("x"))
			n, again := ours.Read(make([]byte, 10))
			return []any{set, err, later, n, again}
		},
		"late write": func(ours net.Conn, theirs *net.UnixConn) []any {
			set := ours.SetWriteDeadline(past)
			n, err := ours.Write([]byte("x"))
			_ = ours.SetDeadline(soon())
			m, later := ours.Write(large)
			_ = ours.SetDeadline(time.Time{})
			go theirs.Close()
			_, _ = ours.Write(large)
			return []any{set, n, err, m < much, later}
		},
		"deadline of a waiting write": whileWriting(large, func(ours net.Conn, _ *net.UnixConn) {
			_ = ours.SetWriteDeadline(past)
		}),
		"closed while writing":      whileWriting(large, func(ours net.Conn, _ *net.UnixConn) { ours.Close() }),
		"peer closes while writing": whileWriting(large, func(_ net.Conn, theirs *net.UnixConn) { theirs.Close() }),
		"closed while reading": func(ours net.Conn, _ *net.UnixConn) []any {
			go ours.Close()
			_, err := ours.Read(make([]byte, 10))
			_, after := ours.Read(make([]byte, 10))
			_, wrote := ours.Write([]byte("x"))
			return []any{err, after, wrote, ours.SetDeadline(past), ours.SetReadDeadline(past),
				ours.SetWriteDeadline(past)}
		},
		"both directions": func(ours net.Conn, theirs *net.UnixConn) []any {
			results := make(chan any, 3)
			receive := func(c net.Conn) {
				b := make([]byte, much)
				_, err := io.ReadFull(c, b)
				results <- fmt.Sprint(bytes.Equal(b, large), err)
			}
			go receive(ours)
			go receive(theirs)
			go func() { _, err := theirs.Write(large); results <- fmt.Sprint(true, err) }()
			n, err := ours.Write(large)
			return []any{n, err, <-results, <-results, <-results}
		},
		"addresses": func(ours net.Conn, _ *net.UnixConn) []any {
			return []any{ours.LocalAddr().Network(), ours.LocalAddr().String(), ours.RemoteAddr().Network()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var results [2]string
			for i := range results {
				ours, theirs := unixPair(t)
				nc := net.Conn(ours)
				if i == 1 {
					if nc = inputOnly(ours); nc == net.Conn(ours) {
						t.Fatal("the connection was not replaced")
					}
				}
				for _, v := range test(nc, theirs) {
					if err, ok := v.(error); ok {
						v = kindOfError(err)
					}
					results[i] += fmt.Sprint(v, "; ")
				}
				nc.Close()
			}
			testkit.Equal(t, results[1], results[0], "unixConn beside package net")
		})
	}
}

// kindOfError returns what callers of a net.Conn may find out about an error.
func kindOfError(err error) string {
	var errno syscall.Errno
	var op *net.OpError
	var timeout net.Error
	errors.As(err, &errno)
	return fmt.Sprintf("%d %v %v %v %v %v", errno, errors.As(err, &op), errors.Is(err, net.ErrClosed),
		errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, io.EOF))
}

// Its peer's reads, which make room for output, do not make the epoll instance of a unixConn
// readable. Its peer's writes do, each time.
func TestUnixConnWaitsForInputOnly(t *testing.T) {
	ours, theirs := unixPair(t)
	c := inputOnly(ours).(*unixConn)
	defer c.Close()
	isReadable := func() (readable bool) {
		if err := c.input.raw.Control(func(fd uintptr) {
			events := make([]syscall.EpollEvent, 1)
			n, err := syscall.EpollWait(int(fd), events, 0)
			readable = n > 0
			testkit.Check(t, err)
		}); err != nil {
			t.Fatal(err)
		}
		return readable
	}
	for range 3 {
		for i, step := range []struct {
			do   func() (int, error)
			want bool
		}{
			{func() (int, error) { return c.Write([]byte("request")) }, false},
			{func() (int, error) { return theirs.Read(make([]byte, 10)) }, false},
			{func() (int, error) { return theirs.Write([]byte("response")) }, true},
			{func() (int, error) { return c.Read(make([]byte, 10)) }, false},
		} {
			testkit.Value(step.do())(t)
			testkit.Equal(t, isReadable(), step.want, "readable after step", i)
		}
	}
}

// Closing a unixConn closes its descriptors, and without descriptors it does not replace the
// connection.
func TestUnixConnLeavesNoDescriptor(t *testing.T) {
	before := 0
	for i := range 100 {
		if i == 1 { // Go's poller has its descriptors
			before = testkit.OpenFiles()
		}
		ours, theirs := unixPair(t)
		c := inputOnly(ours)
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		testkit.Send(t, c, make([]byte, 1<<20))
		c.Close()
		theirs.Close()
	}
	testkit.Between(t, testkit.OpenFiles(), 0, before, "descriptors")
	ours, _ := unixPair(t)
	noDescriptors(t)
	if c := inputOnly(ours); c != net.Conn(ours) {
		t.Error("the connection was replaced without descriptors")
	}
}

// Without descriptors a Write that must wait continues nevertheless, until the deadline.
func TestUnixConnWritesWithoutDescriptors(t *testing.T) {
	ours, theirs := unixPair(t)
	c := inputOnly(ours)
	defer c.Close()
	if c == net.Conn(ours) {
		t.Fatal("the connection was not replaced")
	}
	noDescriptors(t)
	large := make([]byte, 1<<20)
	done := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(theirs, make([]byte, len(large)))
		done <- err
	}()
	if n, err := c.Write(large); n != len(large) || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	testkit.Check(t, <-done)
	_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := c.Write(large); n == len(large) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
	_ = c.SetWriteDeadline(time.Time{})
	go func() {
		_, err := c.Write(large)
		done <- err
	}()
	c.Close()
	testkit.Is(t, <-done, net.ErrClosed, "after Close")
}
