package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownNet is "ownnet [-readonly] COMMAND": it runs a command in a network namespace with its own
// kernel settings. With -readonly they are read-only, as in most containers.
func ownNet() {
	const inside = "TARE_TEST_OWN_NET"
	args := os.Args[1:]
	err := error(nil)
	if os.Getenv(inside) == "" {
		c := exec.Command("ownnet", args...)
		c.Env = append(os.Environ(), inside+"=1")
		c.Stdin, c.Stdout, c.Stderr, c.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, ownNetAttr()
		err = c.Run()
		if ended, ok := errors.AsType[*exec.ExitError](err); ok {
			os.Exit(ended.ExitCode())
		}
	} else {
		if args[0] == "-readonly" {
			args, err = args[1:], makeReadOnly()
		}
		err = errors.Join(err, loopbackUp(), replace(args))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ownnet:", err)
		os.Exit(1)
	}
}

// ownNetAttr returns the attributes of a process with its own network and mount namespaces. Without
// privileges that requires a user namespace.
func ownNetAttr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// canOwnNet is the condition "ownnet": whether such namespaces are permitted. If CI=true is in the
// environment, they must be.
func canOwnNet() (bool, error) {
	c := exec.Command("true")
	c.SysProcAttr = ownNetAttr()
	err := c.Run()
	if err != nil && os.Getenv("CI") == "true" {
		return false, fmt.Errorf("a network of its own: %w", err)
	}
	return err == nil, nil
}

// makeReadOnly makes kernel settings read-only in this process's mounts.
func makeReadOnly() error {
	const flags = syscall.MS_BIND | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	return errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("/proc/sys", "/proc/sys", "", syscall.MS_BIND, ""),
		syscall.Mount("", "/proc/sys", "", flags|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""),
	)
}

// loopbackUp enables the loopback interface of a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// replace replaces this process by a command.
func replace(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, slices.Clone(args), os.Environ())
}
