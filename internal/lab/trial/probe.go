package trial

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/contender"
)

// probe measures how fast the servers' processors are during a slice: every few milliseconds it
// times a small piece of work on each of them. On a virtual machine the speed can double or halve
// within milliseconds, when other machines use the same core or its caches. Nothing else shows
// this: the kernel counts the time as the server's. A slice in which the work takes longer costs
// more, whichever contender it loads, so that the ratio of two slices can be corrected
// (stat.Corrected).
type probe struct {
	on      atomic.Bool
	procs   int // GOMAXPROCS before
	threads []*probeThread
	over    sync.WaitGroup
}

const (
	// The work is done every probeEvery, probeTimes in a row, and sorts an array probeSorts times.
	// It uses about 2 % of a CPU. Twice as often did not reduce the noise further.
	probeEvery = 2500 * time.Microsecond
	probeTimes = 16
	probeSorts = 4
	// probeWarm is the number of times that are discarded. They refill the caches that the server
	// has used, so that the result does not depend on the server.
	probeWarm = 6
)

// probeThread is one thread of a probe. It waits while the probe is off.
type probeThread struct {
	probe  *probe
	begin  chan struct{} // closed when the probe is closed
	sorted [64]uint32    // the array that the work sorts

	mu   sync.Mutex    // guards the rest
	took time.Duration // sum of the times of the work
	n    int           // number of these times
}

// newProbe makes a probe of some processors. Without processors it measures nothing.
func newProbe(cpus []int) (*probe, error) {
	// A thread that sleeps in a system call keeps its P for up to 10 ms. More Ps let other
	// goroutines run meanwhile.
	p := &probe{procs: runtime.GOMAXPROCS(0)}
	runtime.GOMAXPROCS(p.procs + len(cpus))
	for _, cpu := range cpus {
		t := &probeThread{probe: p, begin: make(chan struct{}, 1)}
		bound := make(chan error)
		p.threads = append(p.threads, t)
		p.over.Go(func() { t.run(cpu, bound) })
		if err := <-bound; err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *probe) begin() {
	p.on.Store(true)
	for _, t := range p.threads {
		select {
		case t.begin <- struct{}{}:
		default: // the thread has not noticed the last end yet
		}
	}
}

// end switches the probe off. It returns the mean time of the work since begin; 0 if a processor was
// not probed.
func (p *probe) end() (took time.Duration) {
	p.on.Store(false)
	missed := false
	for _, t := range p.threads {
		t.mu.Lock()
		if t.n > 0 {
			took += t.took / time.Duration(t.n) / time.Duration(len(p.threads))
		}
		missed = missed || t.n == 0
		t.took, t.n = 0, 0
		t.mu.Unlock()
	}
	if missed {
		return 0
	}
	return took
}

func (p *probe) close() {
	p.on.Store(false)
	for _, t := range p.threads {
		close(t.begin)
	}
	p.over.Wait()
	runtime.GOMAXPROCS(p.procs)
}

// run is the body of the thread. The goroutine does not unlock its thread, which ends with it.
func (t *probeThread) run(cpu int, bound chan<- error) {
	runtime.LockOSThread()
	err := contender.Bind(0, []int{cpu})
	bound <- err
	if err != nil {
		return
	}
	for range t.begin {
		for t.probe.on.Load() {
			pause := unix.NsecToTimespec(probeEvery.Nanoseconds())
			_ = unix.Nanosleep(&pause, nil) // EINTR only shortens the pause
			if !t.probe.on.Load() {
				break
			}
			took := t.work()
			t.mu.Lock()
			if t.probe.on.Load() { // otherwise end was called meanwhile
				t.took += took
				t.n++
			}
			t.mu.Unlock()
		}
	}
}

// work sorts an array several times and returns the median time. It uses only the processor and its
// nearest cache: on a quiet machine the times beside all contenders agree within 0.3 %. System
// calls as work took 1 to 3 % longer beside some contenders than beside others. The median ignores
// interrupts, which are caused by the server's load and not by the processor's speed.
func (t *probeThread) work() time.Duration {
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

// sort is an insertion sort. It makes the same steps each time, with many branches, like a server.
func (t *probeThread) sort() {
	const golden = 2654435761 // 2³² divided by the golden ratio: its multiples are far from sorted
	all := &t.sorted
	for i := range all {
		all[i] = uint32(i) * golden
		for j := i; j > 0 && all[j-1] > all[j]; j-- {
			all[j-1], all[j] = all[j], all[j-1]
		}
	}
}
