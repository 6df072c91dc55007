package events

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
)

// A connection to one server leaves its port to connections to other servers, while it is open and
// when it has ended.
func TestCrowdsOfTwoServersShareThePorts(t *testing.T) {
	const (
		ports   = "61000 61063"
		members = 40 // of each of two crowds; together they exceed the ports
	)
	err := inOwnNetwork(ports, func() error { return connectTo(2, members) })
	if errors.Is(err, os.ErrPermission) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	testkit.Check(t, err)
}

// inOwnNetwork calls a function in a network namespace with few ports.
func inOwnNetwork(ports string, do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer before.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	err = errors.Join(testkit.LoopbackUp(),
		os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte(ports), 0o644), do())
	return errors.Join(err, unix.Setns(int(before.Fd()), unix.CLONE_NEWNET))
}

// connectTo opens connections of crowds to servers.
func connectTo(servers, each int) error {
	for range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		c := crowd{address: l.Addr().String()}
		for range each {
			conn, err := c.dial(context.Background())
			if err != nil {
				return err
			}
			defer conn.Close()
		}
	}
	return nil
}
