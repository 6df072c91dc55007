package files

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func newStamp(info os.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device = uint64(sys.Dev) //nolint:unconvert // types differ between architectures
		s.inode = sys.Ino
		s.changed = sys.Ctim.Nano()
	}
	return s
}

// statAt is statx for a path in parts. Unlike unix.Statx it allocates nothing for usual paths.
func statAt(dir, flags int, x *unix.Statx_t, parts ...string) error {
	var room [256]byte
	path := room[:0]
	for _, part := range parts {
		path = append(path, part...)
	}
	path = append(path, 0)
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&path[0])),
		uintptr(flags), unix.STATX_BASIC_STATS, uintptr(unsafe.Pointer(x)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func statxStamp(x *unix.Statx_t) stamp {
	return stamp{
		device: unix.Mkdev(x.Dev_major, x.Dev_minor), inode: x.Ino, size: int64(x.Size),
		modified: x.Mtime.Sec*1e9 + int64(x.Mtime.Nsec), changed: x.Ctime.Sec*1e9 + int64(x.Ctime.Nsec),
	}
}
