package privilege

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The access rights that each version of the Landlock ABI can restrict (landlock(7)).
const (
	fsVersion1 = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	fsVersion2    = unix.LANDLOCK_ACCESS_FS_REFER
	fsVersion3    = unix.LANDLOCK_ACCESS_FS_TRUNCATE
	netVersion4   = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	fsVersion5    = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	scopeVersion6 = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
)

func (*linux) landlock() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// restrictions returns all that a version of the ABI can restrict. Signals are excluded: kernels
// without a common domain for all threads would restrict signals between threads.
func restrictions(version int) (a unix.LandlockRulesetAttr) {
	a.Handled_access_fs = fsVersion1
	if version >= 2 {
		a.Handled_access_fs |= fsVersion2
	}
	if version >= 3 {
		a.Handled_access_fs |= fsVersion3
	}
	if version >= 4 {
		a.Handled_access_net = netVersion4
	}
	if version >= 5 {
		a.Handled_access_fs |= fsVersion5
	}
	if version >= 6 {
		a.Scoped = scopeVersion6
	}
	return a
}

// confine makes the kernel deny everything except reading the served directory, the rights of kept
// directories, and reading the status of threads. The last is needed for verification; it ends when
// the open directory is closed.
func (k *linux) confine(folders Folders) error {
	attr := restrictions(k.landlock())
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)),
		unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	defer func() { _ = unix.Close(int(fd)) }()
	const reading = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	for _, f := range []*os.File{folders.Served, k.tasks} {
		if err := allow(fd, f, reading); err != nil {
			return err
		}
	}
	if err := allow(fd, k.fds, unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
		return err
	}
	for _, f := range folders.Keep {
		if err := allow(fd, f.File, f.For.rights()); err != nil {
			return err
		}
	}
	if err := allThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); err != nil {
		return fmt.Errorf("landlock_restrict_self: %w", err)
	}
	return nil
}

func (a Access) rights() (r uint64) {
	if a&Read != 0 {
		r |= unix.LANDLOCK_ACCESS_FS_READ_FILE
	}
	if a&Write != 0 {
		r |= unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_REG
	}
	if a&Remove != 0 {
		r |= unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
	}
	return r
}

// allow adds a rule: rights for everything below a directory.
func allow(ruleset uintptr, dir *os.File, rights uint64) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(dir.Fd())}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	runtime.KeepAlive(dir)
	if errno != 0 {
		return fmt.Errorf("landlock_add_rule: %q: %w", dir.Name(), errno)
	}
	return nil
}
