package proc

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Machine is what changes on the whole machine while something is measured.
type Machine struct {
	Busy         time.Duration // of all processors together
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
	t := stat.CPUTotal
	busy := t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal
	m := Machine{Busy: time.Duration(busy * float64(time.Second))}
	self, err := fs.Self()
	if err != nil {
		return Machine{}, fmt.Errorf("proc: %w", err)
	}
	if snmp, err := self.Snmp(); err == nil && snmp.PassiveOpens != nil {
		m.PassiveOpens = uint64(*snmp.PassiveOpens)
	}
	return m, nil
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
