package proc

import (
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Resident returns the resident memory in bytes that processes had when they were listed. Pages that
// several processes share are counted for each.
func Resident(processes []Process) (bytes int64) {
	for _, p := range processes {
		bytes += p.RSS
	}
	return bytes
}

// TemporaryFiles returns the size of the files that processes have open and that have no name
// anymore, in bytes. It takes some microseconds for each descriptor, and leaves out ended
// processes.
func TemporaryFiles(processes []Process) (bytes int64, err error) {
	for _, p := range processes {
		dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", p.PID))
		if gone(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("proc: %w", err)
		}
		names, err := dir.Readdirnames(-1)
		if err == nil {
			bytes += unnamed(dir, names)
		}
		dir.Close()
		if err != nil && !gone(err) {
			return 0, fmt.Errorf("proc: %w", err)
		}
	}
	return bytes, nil
}

// unnamed returns the size of the files without a name among descriptors in an fd folder of /proc.
func unnamed(dir *os.File, names []string) (bytes int64) {
	for _, name := range names {
		var stat unix.Stat_t
		err := unix.Fstatat(int(dir.Fd()), name, &stat, 0) // fails for descriptors that were closed
		if err == nil && stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Nlink == 0 {
			bytes += stat.Size
		}
	}
	return bytes
}

// SocketMemory returns the memory of all TCP sockets of this network namespace in the kernel, in
// bytes.
func SocketMemory() (bytes int64, err error) {
	stat, err := read(procfs.FS.NetSockstat)
	if err != nil {
		return 0, err
	}
	for _, p := range stat.Protocols {
		if p.Protocol == "TCP" && p.Mem != nil { // in pages
			return int64(*p.Mem) * int64(os.Getpagesize()), nil
		}
	}
	return 0, errors.New("proc: /proc/net/sockstat has no memory of TCP")
}
