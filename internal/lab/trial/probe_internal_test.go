package trial

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
)

// A probe measures the time of its work, which it seldom does.
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
	for range 3 {
		began := time.Now()
		p.begin()
		works := 0
		testkit.WaitFor(t, "the work of each thread", func() bool {
			each := p.works()
			works = slices.Max(each)
			return slices.Min(each) > 0
		})
		elapsed, took := time.Since(began), p.end()
		if took <= 0 || took > time.Second || time.Duration(works)*probeEvery > elapsed {
			t.Errorf("the work takes %v, and was done %d times in %v", took, works, elapsed)
		}
		time.Sleep(2 * probeEvery)
		testkit.Equal(t, p.end(), 0, "after its end")
	}
	p.close()
	testkit.Equal(t, runtime.GOMAXPROCS(0), procs, "GOMAXPROCS")
}

// works returns how often each thread has worked since begin.
func (p *probe) works() (all []int) {
	for _, t := range p.threads {
		t.mu.Lock()
		all = append(all, t.n)
		t.mu.Unlock()
	}
	return all
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
	testkit.Fails(newProbe([]int{1023}))(t, "")
	testkit.Equal(t, runtime.GOMAXPROCS(0), procs, "GOMAXPROCS")
	p := testkit.Value(newProbe(nil))(t)
	p.begin()
	testkit.Equal(t, p.end(), 0)
	p.close()
}
