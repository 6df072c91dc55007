package trial

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// probe tells how fast the servers' processors are during a slice. Every few milliseconds it measures how
// long a small piece of work takes on each of them. On a virtual machine that can change twofold within
// milliseconds, when others use the other half of a core or its caches, and nothing else shows it: the
// kernel counts the time as the server's. Slices in which the work takes longer cost more, for any
// contender alike, and so the ratio of two slices can be corrected (stat.Ratios).
type probe struct {
	on      atomic.Bool
	procs   int // GOMAXPROCS before
	threads []*probing
	over    sync.WaitGroup
}

const (
	// probeEvery is how often the work is done, probeTimes how often in a row, and probeSorts how many times
	// some numbers are sorted. All of that takes about 2 % of a CPU. Twice as often reduced the noise no further.
	probeEvery = 2500 * time.Microsecond
	probeTimes = 16
	probeSorts = 4
	// probeWarm of the times are not looked at: they bring the work back into the caches from which the
	// server has driven it, so that it makes no difference who that is.
	probeWarm = 6
)

// probing is one thread of a probe. While the probe is off the thread waits.
type probing struct {
	probe  *probe
	begin  chan struct{} // closed when all is over
	sorted [64]uint32    // what the work is done on

	guard sync.Mutex
	took  time.Duration // sum of what the work took
	n     int           // how often it was done
	cpu   time.Duration // of the thread, until the last time
}

// newProbe makes a probe of some processors; of none it tells nothing.
func newProbe(cpus []int) (*probe, error) {
	// A thread that sleeps in a system call keeps others from running for up to 10 ms, if no more
	// threads may run than there are processors.
	p := &probe{procs: runtime.GOMAXPROCS(0)}
	runtime.GOMAXPROCS(p.procs + len(cpus))
	for _, cpu := range cpus {
		t := &probing{probe: p, begin: make(chan struct{}, 1)}
		bound := make(chan error)
		p.threads = append(p.threads, t)
		p.over.Go(func() { t.run(cpu, bound) })
		if err := <-bound; err != nil {
			p.close()
			return nil, fmt.Errorf("trial: processor %d: %w", cpu, err)
		}
	}
	return p, nil
}

// begin begins to probe.
func (p *probe) begin() {
	p.on.Store(true)
	for _, t := range p.threads {
		select {
		case t.begin <- struct{}{}:
		default: // it has not seen yet that it was to stop
		}
	}
}

// end ends that, and returns the mean time that the work took since begin, and the CPU time that
// the probe has used. No time is told if a processor was never probed.
func (p *probe) end() (took, used time.Duration) {
	p.on.Store(false)
	missed := false
	for _, t := range p.threads {
		t.guard.Lock()
		if t.n > 0 {
			took += t.took / time.Duration(t.n) / time.Duration(len(p.threads))
		}
		missed = missed || t.n == 0
		used += t.cpu
		t.took, t.n, t.cpu = 0, 0, 0
		t.guard.Unlock()
	}
	if missed {
		took = 0
	}
	return took, used
}

// close ends all threads.
func (p *probe) close() {
	p.on.Store(false)
	for _, t := range p.threads {
		close(t.begin)
	}
	p.over.Wait()
	runtime.GOMAXPROCS(p.procs)
}

// run is what the thread does. It ends with the goroutine, which does not unlock it.
func (t *probing) run(cpu int, bound chan<- error) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	err := unix.SchedSetaffinity(0, &set)
	bound <- os.NewSyscallError("sched_setaffinity", err)
	if err != nil {
		return
	}
	for range t.begin {
		began := threadTime()
		for t.probe.on.Load() {
			pause := unix.NsecToTimespec(probeEvery.Nanoseconds())
			_ = unix.Nanosleep(&pause, nil) // an interrupted one is shorter
			if !t.probe.on.Load() {
				break
			}
			took := t.work()
			now := threadTime()
			t.guard.Lock()
			if t.probe.on.Load() { // else end has been called meanwhile
				t.took += took
				t.n++
				t.cpu += now - began
			}
			t.guard.Unlock()
			began = now
		}
	}
}

// work sorts some numbers, and returns how long that takes. It stays in the processor and its nearest cache,
// and is as long for all contenders while the machine is at rest, within 0.3 %. System calls instead, of which
// servers make more, took 1 to 3 % longer beside some contenders than beside others. The result is the median of
// several times: an interrupt is the server's, and no matter of the processor's speed.
func (t *probing) work() time.Duration {
	var took [probeTimes - probeWarm]time.Duration
	for i := range probeTimes {
		began := time.Now()
		for range probeSorts {
			t.sort()
		}
		if i >= probeWarm {
			took[i-probeWarm] = time.Since(began)
		}
	}
	slices.Sort(took[:])
	return (took[len(took)/2-1] + took[len(took)/2]) / 2
}

// sort sorts by insertion: the same steps each time, among them many branches, as in servers.
func (t *probing) sort() {
	const golden = 2654435761 // the golden ratio's share of 2³²: its multiples are far from sorted
	all := &t.sorted
	for i := range all {
		all[i] = uint32(i) * golden
		for j := i; j > 0 && all[j-1] > all[j]; j-- {
			all[j-1], all[j] = all[j], all[j-1]
		}
	}
}

// threadTime is the CPU time of this thread.
func threadTime() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
