package privilege

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the versions of Landlock's interface can refuse (landlock(7)).
const (
	fsVersion1 = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
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

// refusals are all that a version can refuse. Signals are not among them: for the kernels that have no single domain for
// all threads, they would be signals to other threads.
func refusals(version int) (a unix.LandlockRulesetAttr) {
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

// confine has the kernel refuse all but reading what is served, what is kept for, and reading of the threads' status, which
// is needed once more: that exception ends with the open folder.
func (k *linux) confine(folders Folders) error {
	attr := refusals(k.landlock())
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
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
	if err := everywhere(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); err != nil {
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

// allow adds a rule: rights for whatever is below a folder.
func allow(ruleset uintptr, dir *os.File, rights uint64) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(dir.Fd())}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	runtime.KeepAlive(dir)
	if errno != 0 {
		return fmt.Errorf("landlock_add_rule: %q: %w", dir.Name(), errno)
	}
	return nil
}
