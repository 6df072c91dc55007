package proc

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Machine is what changes on the whole machine while something is measured.
type Machine struct {
	Busy         time.Duration // of all processors together, since a time that is always the same
	PassiveOpens uint64        // TCP connections accepted, by any program
}

// Now returns the machine's counters.
func Now() (Machine, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return Machine{}, fmt.Errorf("proc: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return Machine{}, fmt.Errorf("proc: %w", err)
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return Machine{}, fmt.Errorf("proc: %w", os.NewSyscallError("clock_gettime", err))
	}
	// Idle time is counted to the end of each pause. Busy time is counted by what runs at a clock tick,
	// which misses up to half of it where programs wait often and shortly.
	idle := time.Duration((stat.CPUTotal.Idle + stat.CPUTotal.Iowait) * float64(time.Second))
	m := Machine{Busy: time.Duration(len(stat.CPU))*time.Duration(up.Nano()) - idle}
	m.PassiveOpens = PassiveOpens()
	return m, nil
}

// PassiveOpens returns how many TCP connections were accepted on the machine, by any program; 0 if the
// kernel does not tell.
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
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return "unknown"
	}
	info, err := fs.CPUInfo()
	if err != nil || len(info) == 0 || info[0].ModelName == "" {
		return "unknown"
	}
	return info[0].ModelName
}

// MemoryTotal returns the machine's memory in bytes, or 0.
func MemoryTotal() uint64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	m, err := fs.Meminfo()
	if err != nil || m.MemTotalBytes == nil {
		return 0
	}
	return *m.MemTotalBytes
}

// MemoryAvailable returns how many bytes programs can still have without swapping, or 0.
func MemoryAvailable() uint64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	m, err := fs.Meminfo()
	if err != nil || m.MemAvailableBytes == nil {
		return 0
	}
	return *m.MemAvailableBytes
}

// Sysctl returns a kernel setting such as net.core.somaxconn, or "" if there is no
// such.
func Sysctl(name string) string {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return ""
	}
	values, err := fs.SysctlStrings(name)
	if err != nil {
		return ""
	}
	return strings.Join(values, " ")
}
