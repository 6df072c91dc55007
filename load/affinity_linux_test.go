package load_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// affinities returns the CPUs that each thread of this process may run on.
func affinities(t *testing.T) map[int]unix.CPUSet {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/[0-9]*")
	testkit.Must(t, err)
	sets := make(map[int]unix.CPUSet)
	for _, task := range tasks {
		tid, err := strconv.Atoi(filepath.Base(task))
		testkit.Must(t, err)
		var set unix.CPUSet
		if unix.SchedGetaffinity(tid, &set) == nil { // it may have ended
			sets[tid] = set
		}
	}
	return sets
}

// During a run each thread is bound to its CPU, and afterwards none is. A thread of the run may
// later run other goroutines, or be the one that new threads are cloned from.
func TestThreadsAreBoundOnlyDuringTheRun(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var all unix.CPUSet
	testkit.Must(t, unix.SchedGetaffinity(0, &all))
	var cpus []int
	for cpu := range 1024 {
		if all.IsSet(cpu) && len(cpus) < 2 {
			cpus = append(cpus, cpu)
		}
	}
	if len(cpus) < 2 {
		t.Skip("needs two processors")
	}
	for range 5 {
		bound := make(map[int]int)
		r := run(t, load.Plan{
			URL: server.URL, Connections: 4, Threads: 3, CPUs: cpus, Duration: 20 * time.Millisecond,
			Trace: &load.Trace{Started: func() {
				for _, set := range affinities(t) {
					for _, cpu := range cpus {
						if set.Count() == 1 && set.IsSet(cpu) {
							bound[cpu]++
						}
					}
				}
			}},
		})
		if bound[cpus[0]] != 2 || bound[cpus[1]] != 1 || r.Errors.First != "" {
			t.Errorf("threads by processor: %v, want two on %d and one on %d; first error %q", bound, cpus[0], cpus[1],
				r.Errors.First)
		}
		for tid, set := range affinities(t) {
			if set != all {
				t.Errorf("thread %d may run on %d processors, want %d", tid, set.Count(), all.Count())
			}
		}
	}
}

func TestNonexistentCPUIsReported(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	r := run(t, load.Plan{URL: server.URL, Requests: 20, Connections: 1, CPUs: []int{1000}})
	if r.Requests == 0 || r.Errors.Total() != 0 ||
		!strings.Contains(r.Errors.First, "cannot bind a thread to CPU 1000") {
		t.Errorf("%d requests, errors %+v", r.Requests, r.Errors)
	}
}
