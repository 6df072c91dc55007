package proc

import (
	"os"
	"testing"
)

// The network's work in the kernel's threads is not that of other programs.
func TestSoftIRQThreadsAreFound(t *testing.T) {
	if name, err := os.ReadFile("/proc/2/comm"); err != nil || string(name) != "kthreadd\n" {
		t.Skipf("the kernel's threads are not visible: %q, %v", name, err)
	}
	pids := softirqds([]int{0})
	if len(pids) != 1 {
		t.Fatalf("ksoftirqd of one CPU: processes %v", pids)
	}
	if cpuTime(pids[0]) == 0 {
		t.Error("ksoftirqd has no CPU time")
	}
	if pids := softirqds([]int{1 << 20}); pids != nil {
		t.Errorf("ksoftirqd of a CPU that does not exist: %v", pids)
	}
}
