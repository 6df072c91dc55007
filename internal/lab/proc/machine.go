package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

func read[T any](file func(procfs.FS) (T, error)) (content T, err error) {
	fs, err := procfs.NewDefaultFS()
	if err == nil {
		content, err = file(fs)
	}
	if err != nil {
		err = fmt.Errorf("proc: %w", err)
	}
	return content, err
}

// OpenFiles returns the limit of this process's open files, which Go has raised as far as it may.
func OpenFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		panic(fmt.Sprintf("proc: BUG: getrlimit: %v", err)) // it cannot fail with these arguments
	}
	return limit.Cur
}

// CPUModel returns the name of the processor, or "unknown".
func CPUModel() string {
	info, err := read(procfs.FS.CPUInfo)
	if err != nil || len(info) == 0 || info[0].ModelName == "" {
		return "unknown"
	}
	return info[0].ModelName
}

// MemoryTotal returns the machine's memory in bytes, or 0.
func MemoryTotal() uint64 { return memory(func(m procfs.Meminfo) *uint64 { return m.MemTotalBytes }) }

// MemoryAvailable returns the bytes that programs can still allocate without swapping, or 0.
func MemoryAvailable() uint64 {
	return memory(func(m procfs.Meminfo) *uint64 { return m.MemAvailableBytes })
}

// memory returns one of the numbers in /proc/meminfo, or 0.
func memory(of func(procfs.Meminfo) *uint64) uint64 {
	m, err := read(procfs.FS.Meminfo)
	if n := of(m); err == nil && n != nil {
		return *n
	}
	return 0
}

// Setting returns the value of a kernel setting such as net.core.somaxconn, with single spaces
// between its numbers, or "" if it cannot be read: containers do not see all of them.
func Setting(name string) string {
	b, err := os.ReadFile(filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/")))
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(b)), " ")
}
