package cli_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cable is a link that delays and loses frames, in user space: not every kernel has netem.
type cable struct {
	delay time.Duration // one way
	loss  float64       // share of the frames
}

// frameSize is the size of the largest frame, with room to spare.
const frameSize = 2048

// maxFrames limits the frames on the way in one direction. More are lost, as in a full queue.
const maxFrames = 4096

// connect connects two machines by network devices of the given names. Devices vanish with their
// machine.
func (c *cable) connect(t *testing.T, a *machine, nameA string, b *machine, nameB string) {
	t.Helper()
	ends := [2]*os.File{newTap(t, a, nameA), newTap(t, b, nameB)}
	t.Cleanup(func() {
		ends[0].Close()
		ends[1].Close()
	})
	go c.carry(ends[0], ends[1])
	go c.carry(ends[1], ends[0])
}

// carry carries frames in one direction until an end is closed.
func (c *cable) carry(from, to *os.File) {
	type frame struct {
		due  time.Time
		text []byte
	}
	frames := make(chan frame, maxFrames)
	defer close(frames)
	go func() {
		for f := range frames {
			time.Sleep(time.Until(f.due))
			_, _ = to.Write(f.text)
		}
	}()
	b := make([]byte, frameSize)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if rand.Float64() < c.loss {
			continue
		}
		select {
		case frames <- frame{time.Now().Add(c.delay), append([]byte(nil), b[:n]...)}:
		default:
		}
	}
}

// newTap creates a network device in a machine and returns its other side.
func newTap(t *testing.T, m *machine, name string) *os.File {
	t.Helper()
	var file *os.File
	err := inNetwork(m.pid, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("/dev/net/tun: %w", err)
		}
		request, err := unix.NewIfreq(name)
		if err == nil {
			request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
		}
		if err != nil {
			_ = unix.Close(fd)
			return fmt.Errorf("TUNSETIFF %s: %w", name, err)
		}
		file = os.NewFile(uintptr(fd), name)
		return nil
	})
	if os.IsNotExist(err) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// inNetwork calls do on a thread in the network namespace of a process.
func inNetwork(pid int, do func() error) error {
	space, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer space.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
		err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}
