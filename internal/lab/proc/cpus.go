package proc

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

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

// Busy returns the time in which the CPUs were not idle since the machine started, as a sum. It
// includes interrupts and time of other virtual machines (steal). It does not include the threads
// ksoftirqd, which continue the network's work for any process: a fifth of a CPU while large
// responses pass through the loopback. known is false if the kernel does not report idle time, as
// in some sandboxes.
//
// Busy subtracts idle time from the time since the start. The kernel counts idle time exactly, but
// samples busy time at clock ticks, and misses up to half of it if programs run often and briefly.
func (c *CPUs) Busy() (busy time.Duration, known bool, err error) {
	up := Clock(unix.CLOCK_BOOTTIME)
	stat, err := read(procfs.FS.Stat)
	if err != nil {
		return 0, false, err
	}
	idle := 0.0
	for _, n := range c.numbers {
		use, ok := stat.CPU[int64(n)]
		if !ok {
			return 0, false, nil
		}
		idle += use.Idle + use.Iowait
	}
	busy = time.Duration(len(c.numbers))*up - time.Duration(idle*float64(time.Second))
	for _, pid := range c.softirqds {
		busy -= cpuTime(pid)
	}
	return busy, idle > 0, nil
}

// Stolen returns the time in which the CPUs had work and the hypervisor ran other virtual machines,
// since the machine started, as a sum. It is 0 if the hypervisor does not report it.
func (c *CPUs) Stolen() (time.Duration, error) {
	stat, err := read(procfs.FS.Stat)
	if err != nil {
		return 0, err
	}
	seconds := 0.0
	for _, n := range c.numbers {
		seconds += stat.CPU[int64(n)].Steal
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
