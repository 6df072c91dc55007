package proc

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

// Each exchange on a socket is timed, from the start of the call that sends to the end of the call
// that receives. Calls that receive nothing are ignored.
func TestStampsTimeExchanges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("timing system calls requires root")
	}
	s, err := TakeStamps(os.Getpid())
	if errors.Is(err, os.ErrPermission) {
		t.Skip(err) // containers and locked-down kernels do not allow it
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	here, there := pair[0], pair[1]
	defer syscall.Close(here)
	defer syscall.Close(there)
	const exchanges, nap = 20, 2 * time.Millisecond
	buffer := make([]byte, 10)
	var longest time.Duration
	for range exchanges {
		began := time.Now()
		if err := syscall.Sendto(here, []byte("request"), 0, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := syscall.Recvfrom(here, buffer, syscall.MSG_DONTWAIT); err != syscall.EAGAIN {
			t.Fatal(err)
		}
		time.Sleep(nap)
		if _, err := syscall.Write(there, []byte("response")); err != nil { // write is ignored
			t.Fatal(err)
		}
		if _, _, err := syscall.Recvfrom(here, buffer, 0); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(began))
		if _, err := syscall.Read(there, buffer); err != nil {
			t.Fatal(err)
		}
	}
	times, err := s.Times()
	if err != nil {
		t.Fatal(err)
	}
	if len(times) != exchanges {
		t.Fatalf("%d times, want %d: %v", len(times), exchanges, times)
	}
	if times[0] < nap || times[exchanges-1] > longest {
		t.Errorf("from %v to %v, want from %v to %v", times[0], times[exchanges-1], nap, longest)
	}
}
