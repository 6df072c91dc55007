package load_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// HTTP and FastCGI run over TCP, IPv6 and unix sockets, each with and without TLS.
func TestEveryTransportWorks(t *testing.T) {
	testkit.Long(t, "it sends requests for a second")
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.RequestURI()) })
	for _, network := range []string{"tcp", "unix", "tcp6"} {
		for _, scheme := range []string{"http", "https", "fcgi", "fcgis"} {
			l, url := listen(t, scheme, network)
			served := l
			if strings.HasSuffix(scheme, "s") {
				served = tls.NewListener(l, &tls.Config{Certificates: certified.TLS.Certificates})
			}
			if strings.HasPrefix(scheme, "fcgi") {
				go fcgi.Serve(served, handler)
			} else {
				go http.Serve(served, handler)
			}
			r := runCleanly(t, load.Plan{URL: url + "/a?b", TLS: &tls.Config{InsecureSkipVerify: true}, Connections: 3,
				Requests: 50})
			testkit.Equal(t, r.BodyBytes, 50*uint64(len("/a?b")), url)
			testkit.Equal(t, r.Handshake != nil, strings.HasSuffix(scheme, "s"), url, "has handshakes")
		}
	}
}

// shortQueue returns a unix socket whose backlog holds two connections.
func shortQueue(t *testing.T) (path string, l net.Listener) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	fd := testkit.Value(syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	testkit.Must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	testkit.Must(t, syscall.Listen(fd, 1))
	l = testkit.Value(net.FileListener(f))(t)
	t.Cleanup(func() { l.Close() })
	return path, l
}

// A unix socket refuses connections at once when its backlog is full. That is no error unless it
// lasts.
func TestFullBacklogIsRetried(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it takes seconds")
	path, l := shortQueue(t)
	connected := false
	r := runUntil(t, load.Plan{URL: "http+unix://" + path, Connections: 200, Timeout: 100 * time.Millisecond,
		Trace: &load.Trace{Connected: func() { connected = true }}},
		func(p load.Progress) bool { return p.Errors.Timeout > 0 })
	if !connected || r.Requests != 0 || r.Errors.Timeout == 0 || r.Errors.Timeout != r.Errors.Total() ||
		!strings.HasPrefix(r.Errors.First, "timeout: ") {
		t.Errorf("connected: %t; %d requests, errors %+v", connected, r.Requests, r.Errors)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go server.Serve(l)
	defer server.Close()
	runCleanly(t, load.Plan{Requests: 40, URL: "http+unix://" + path, Connections: 20})
}

// affinities returns the CPUs that each thread of this process may run on.
func affinities(t *testing.T) map[int]unix.CPUSet {
	t.Helper()
	tasks := testkit.Value(filepath.Glob("/proc/self/task/[0-9]*"))(t)
	sets := make(map[int]unix.CPUSet)
	for _, task := range tasks {
		tid := testkit.Value(strconv.Atoi(filepath.Base(task)))(t)
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
			testkit.Equal(t, set, all, "processors of thread", tid)
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
