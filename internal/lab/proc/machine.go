package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

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
	words, _ := read(func(fs procfs.FS) ([]string, error) { return fs.SysctlStrings(name) })
	return strings.Join(words, " ")
}

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
		dir := fmt.Sprintf("/proc/%d/fd", p.PID)
		open, err := os.ReadDir(dir)
		if err != nil && !gone(err) {
			return 0, fmt.Errorf("proc: %w", err)
		}
		for _, f := range open {
			var stat unix.Stat_t
			err := unix.Stat(filepath.Join(dir, f.Name()), &stat) // fails for descriptors that were closed
			if err == nil && stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Nlink == 0 {
				bytes += stat.Size
			}
		}
	}
	return bytes, nil
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

// CPUs are some of the machine's CPUs, whose use is measured.
type CPUs struct {
	numbers   []int
	softirqds []int // process IDs of their threads ksoftirqd
}

// NewCPUs returns the CPUs of these numbers.
func NewCPUs(numbers []int) CPUs { return CPUs{numbers, softirqds(numbers)} }

// softirqds returns the process IDs of the kernel's threads ksoftirqd of the given CPUs. There are
// none where the kernel's threads are not visible, as in a container.
func softirqds(cpus []int) (pids []int) {
	const kthreadd = 2 // the parent of the kernel's threads
	threads, _ := Children(kthreadd)
	for _, p := range threads {
		cpu, ok := strings.CutPrefix(p.Name, "ksoftirqd/")
		if n, err := strconv.Atoi(cpu); ok && err == nil && slices.Contains(cpus, n) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// Use returns the time in which the CPUs were not idle since the machine started, and the part of it
// in which the hypervisor ran other virtual machines (steal), as sums. busy includes interrupts. It
// does not include the threads ksoftirqd, which continue the network's work for any process: a fifth
// of a CPU while large responses pass through the loopback. It is 0 if the kernel does not report
// idle time, as in some sandboxes, and so is stolen if the hypervisor does not report it.
//
// busy is the time since the start without idle time. The kernel counts idle time exactly, but
// samples busy time at clock ticks, and misses up to half of it if programs run often and briefly.
func (c *CPUs) Use() (busy, stolen time.Duration, err error) {
	up := Clock(unix.CLOCK_BOOTTIME)
	stat, err := read(procfs.FS.Stat)
	if err != nil {
		return 0, 0, err
	}
	idle, steal := 0.0, 0.0
	for _, n := range c.numbers {
		use := stat.CPU[int64(n)]
		idle += use.Idle + use.Iowait
		steal += use.Steal
	}
	stolen = time.Duration(steal * float64(time.Second))
	if idle == 0 {
		return 0, stolen, nil
	}
	busy = time.Duration(len(c.numbers))*up - time.Duration(idle*float64(time.Second))
	for _, pid := range c.softirqds {
		busy -= cpuTime(pid)
	}
	return busy, stolen, nil
}
