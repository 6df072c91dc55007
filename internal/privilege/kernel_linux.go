package privilege

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// Apply gives up what the plan specifies, permanently and in all threads, and verifies it. After an
// error the process is in an undefined state and must exit. Apply must be called once, before
// anything is served.
func (p *Plan) Apply(folders Folders) (*Outcome, error) { return p.apply(new(linux), folders) }

// LandlockVersion returns the version of the kernel's Landlock ABI, 0 if it has none.
func LandlockVersion() int { return new(linux).landlock() }

// linux is the kernel. Package syscall changes users and groups in all threads. Other calls use
// psx, which also works in programs with C libraries, unlike syscall.AllThreadsSyscall.
type linux struct {
	tasks   *os.File      // /proc/self/task
	fds     *os.File      // /proc/self/fd
	parents []os.FileInfo // "/" and "/proc", which contain the two
}

func (*linux) noNewPrivs() error { return allThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0) }

func (*linux) dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	// The conversion must be part of the call, or the pointers' targets may move.
	_, _, errno := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// allThreads makes a system call in all threads. Unused arguments are zero, as prctl requires.
func allThreads(number, a, b, c uintptr) error {
	if _, _, errno := psx.Syscall6(number, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// chroot uses the open directory, not its path, which may by now lead elsewhere.
func (*linux) chroot(dir *os.File) error {
	if err := unix.Fchdir(int(dir.Fd())); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Chdir("/")
}

func (*linux) setGroups(gids []int) error { return syscall.Setgroups(gids) }
func (*linux) setGID(gid int) error       { return syscall.Setresgid(gid, gid, gid) }
func (*linux) setUID(uid int) error       { return syscall.Setresuid(uid, uid, uid) }

// regain tries to regain root's identity in this thread. If it succeeds, the process must exit.
func (*linux) regain(gid int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	try := func(number, a, b, c uintptr) bool {
		_, _, errno := unix.RawSyscall(number, a, b, c)
		return errno == 0
	}
	root, err := unix.BytePtrFromString("/")
	switch {
	case err != nil:
		return err
	case try(unix.SYS_SETRESUID, 0, 0, 0) || try(unix.SYS_SETUID, 0, 0, 0):
		return errors.New("this process can become root again")
	case gid != 0 && (try(unix.SYS_SETRESGID, 0, 0, 0) || try(unix.SYS_SETGID, 0, 0, 0)):
		return errors.New("this process can regain root's group")
	case try(unix.SYS_SETGROUPS, 0, 0, 0):
		return errors.New("this process can change its groups")
	case try(unix.SYS_CHROOT, uintptr(unsafe.Pointer(root)), 0, 0):
		return errors.New("this process can change its root")
	}
	return nil
}

func (k *linux) openProc() (err error) {
	if k.tasks, err = os.Open("/proc/self/task"); err != nil {
		return err
	}
	if k.fds, err = os.Open("/proc/self/fd"); err != nil {
		k.tasks.Close()
		return err
	}
	for _, name := range []string{"/", "/proc"} {
		info, err := os.Stat(name)
		if err != nil {
			k.closeProc()
			return err
		}
		k.parents = append(k.parents, info)
	}
	return nil
}

func (k *linux) closeProc() {
	k.tasks.Close()
	k.fds.Close()
}

func (k *linux) threads() (all []thread, err error) {
	names, err := list(k.tasks)
	for _, name := range names {
		text, err := readAt(k.tasks, name+"/status")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has exited
		}
		if err != nil {
			return nil, err
		}
		t, err := parseStatus(text)
		if err != nil {
			return nil, fmt.Errorf("thread %s: %w", name, err)
		}
		all = append(all, t)
	}
	return all, err
}

// confined tries to read a file outside: one of /proc beside the readable directory. If the whole
// file system is served, nothing is outside.
func (k *linux) confined(folders Folders) error {
	served, err := folders.Served.Stat()
	if err != nil || isOneOf(served, k.parents) {
		return err
	}
	_, err = readAt(k.tasks, "../status")
	switch {
	case err == nil:
		return errors.New("files outside the served directories are readable in spite of Landlock")
	case errors.Is(err, os.ErrPermission):
		return nil
	}
	return err
}

func (k *linux) openDirs() (all []openDir, err error) {
	names, err := list(k.fds)
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			return nil, err
		}
		if fd == int(k.tasks.Fd()) || fd == int(k.fds.Fd()) {
			continue
		}
		d, err := openDirOf(fd)
		if err != nil {
			return nil, err
		}
		if d.info != nil {
			d.path = readLinkAt(k.fds, name)
			all = append(all, d)
		}
	}
	return all, err
}

// openDirOf describes a descriptor. Its info is nil if the descriptor is not a directory.
func openDirOf(fd int) (d openDir, err error) {
	d.fd = fd
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if errors.Is(err, unix.EBADF) {
		return d, nil // closed meanwhile
	}
	if err != nil {
		return d, err
	}
	f := os.NewFile(uintptr(again), "descriptor "+strconv.Itoa(fd))
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		d.info = info
	}
	return d, err
}

// list returns all names in a directory.
func list(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, 0); err != nil {
		return nil, err
	}
	return dir.Readdirnames(-1)
}

func readAt(dir *os.File, name string) (string, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	b := make([]byte, 16<<10) // a status has 2 KB and a line of groups
	n, err := f.Read(b)
	return string(b[:n]), err
}

func readLinkAt(dir *os.File, name string) string {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, b)
	if err != nil {
		return "?"
	}
	return string(b[:n])
}

// parseStatus parses the status of a thread (proc_pid_status(5)).
func parseStatus(text string) (t thread, err error) {
	seen := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		words := strings.Fields(value)
		switch name {
		case "Pid":
			t.id, err = strconv.Atoi(strings.TrimSpace(value))
		case "Uid":
			err = numbers(t.uids[:], words)
		case "Gid":
			err = numbers(t.gids[:], words)
		case "Groups":
			t.groups = make([]int, len(words))
			err = numbers(t.groups, words)
		case "CapInh", "CapPrm", "CapEff", "CapAmb":
			var set uint64
			set, err = strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			t.capabilities |= set
		case "NoNewPrivs":
			t.noNewPrivs = strings.TrimSpace(value) == "1"
		default:
			continue
		}
		if err != nil {
			return t, fmt.Errorf("%s: %w", name, err)
		}
		seen++
	}
	if want := 9; seen != want {
		return t, fmt.Errorf("status has %d of %d required lines", seen, want)
	}
	return t, nil
}

func numbers(to []int, words []string) (err error) {
	if len(words) != len(to) {
		return fmt.Errorf("%d numbers, want %d", len(words), len(to))
	}
	for i, w := range words {
		if to[i], err = strconv.Atoi(w); err != nil {
			return err
		}
	}
	return nil
}
