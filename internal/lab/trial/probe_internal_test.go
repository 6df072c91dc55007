package trial

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
)

// A probe measures the time of its work and uses little CPU time.
func TestProbeMeasuresWork(t *testing.T) {
	var set unix.CPUSet
	testkit.Must(t, unix.SchedGetaffinity(0, &set))
	var cpus []int
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	procs := runtime.GOMAXPROCS(0)
	p := testkit.Value(newProbe(cpus))(t)
	for range 3 { // a busy machine may keep a thread from running
		p.begin()
		time.Sleep(200 * time.Millisecond)
		took, used := p.end()
		if took == 0 {
			continue
		}
		if used < took*probeTimes || took > time.Millisecond {
			t.Errorf("the work takes %v, the threads used %v", took, used)
		}
		time.Sleep(2 * probeEvery)
		if took, used := p.end(); took != 0 || used > time.Second {
			t.Errorf("after its end: %v, %v", took, used)
		}
	}
	p.close()
	if now := runtime.GOMAXPROCS(0); now != procs {
		t.Errorf("GOMAXPROCS is %d, was %d", now, procs)
	}
}

func TestProbeSortsTheSameEachTime(t *testing.T) {
	var p probeThread
	for range 2 {
		p.sort()
		if !slices.IsSorted(p.sorted[:]) || p.sorted[0] == p.sorted[1] {
			t.Fatal(p.sorted)
		}
	}
}

// A probe of a missing CPU is an error. A probe without CPUs measures nothing.
func TestProbeOfMissingCPUs(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	if _, err := newProbe([]int{1023}); err == nil {
		t.Error("no error")
	}
	if now := runtime.GOMAXPROCS(0); now != procs {
		t.Errorf("GOMAXPROCS is %d, was %d", now, procs)
	}
	p := testkit.Value(newProbe(nil))(t)
	p.begin()
	if took, used := p.end(); took != 0 || used != 0 {
		t.Error(took, used)
	}
	p.close()
}
