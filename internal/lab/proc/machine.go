package proc

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// read reads a file of /proc.
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

// Busy returns the time in which the given CPUs were not idle since the machine started, as a sum.
// It includes interrupts and time of other virtual machines (steal). known is false if the kernel
// does not report idle time, as in some sandboxes.
//
// Busy subtracts idle time from the time since the start. The kernel counts idle time exactly, but
// samples busy time at clock ticks, and misses up to half of it if programs run often and briefly.
func Busy(cpus []int) (busy time.Duration, known bool, err error) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return 0, false, fmt.Errorf("proc: %w", os.NewSyscallError("clock_gettime", err))
	}
	stat, err := read(procfs.FS.Stat)
	if err != nil {
		return 0, false, err
	}
	idle := 0.0
	for _, cpu := range cpus {
		c, ok := stat.CPU[int64(cpu)]
		if !ok {
			return 0, false, nil
		}
		idle += c.Idle + c.Iowait
	}
	busy = time.Duration(len(cpus))*time.Duration(up.Nano()) - time.Duration(idle*float64(time.Second))
	return busy, idle > 0, nil
}

// Stolen returns the time in which the given CPUs had work and the hypervisor ran other virtual
// machines, since the machine started, as a sum. It is 0 if the hypervisor does not report it.
func Stolen(cpus []int) (time.Duration, error) {
	stat, err := read(procfs.FS.Stat)
	if err != nil {
		return 0, err
	}
	seconds := 0.0
	for _, cpu := range cpus {
		seconds += stat.CPU[int64(cpu)].Steal
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// PassiveOpens returns the number of TCP connections that all programs of the machine have
// accepted; 0 if the kernel does not report it.
func PassiveOpens() uint64 {
	self, err := procfs.Self()
	if err != nil {
		return 0
	}
	snmp, err := self.Snmp()
	if err != nil || snmp.PassiveOpens == nil {
		return 0
	}
	return uint64(*snmp.PassiveOpens)
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
