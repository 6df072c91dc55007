package lab_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/load"
)

// Limits of the differences between the generator's times and the kernel's.
const (
	clockBusy = 0.2                  // CPU use of the generator; above it, the others do not apply
	clockP50  = 5 * time.Microsecond // difference of the medians
	clockP99  = 0.05                 // difference of the 99th percentiles, as a share
	// clockMissed is the share of exchanges that only one side may have counted: those in progress
	// when the stamps begin and end.
	clockMissed = 0.01
)

// The server of this file responds to napPath after nap.
const (
	napPath = "/nap"
	nap     = time.Millisecond
)

// Environment variables: clockCalls enables the test, clockServer makes its program a server.
const (
	clockCalls  = "TARE_CLOCK"
	clockServer = "TARE_CLOCK_SERVER"
)

// clockRounds is the number of rounds of each server. The median counts: other work of the machine
// in one round delays the two clocks differently.
const clockRounds = 5

// timed is a run, measured by both clocks.
type timed struct {
	result *load.Result
	kernel []time.Duration // in order
}

// timedCase is a server at a rate, with its rounds.
type timedCase struct {
	name, url string
	rate      float64
	rounds    []timed
}

// The generator's times equal the kernel's. An eBPF program records when the generator's calls of
// sendto begin and when those of recvfrom end. It records calls of the test's process only. The
// generator runs there, so that the run's hooks can start and stop the recording. Nothing else in
// the process makes these calls: package net uses read and write. The server is another process, so
// that the two share neither scheduler nor garbage collector.
func TestClockIsTheKernels(t *testing.T) {
	if os.Getenv(clockServer) != "" {
		serveNaps()
	}
	if os.Getenv(clockCalls) == "" {
		t.Skip("checks the generator's clock against the kernel's, for a minute: set " + clockCalls + "=1")
	}
	clock, err := takeStamps(os.Getpid())
	if err != nil {
		t.Skipf("the kernel's clock cannot be read: %v", err)
	}
	clock.Close()
	cpus, err := contender.AllCPUs()
	if err != nil {
		t.Fatal(err)
	}
	f := clockCPUs{all: cpus}
	if f.server, f.generator = trial.Layout(cpus, 1); f.server == nil {
		t.Skip("needs two processors: one for servers and one for the load")
	}
	stepAside(t, f)
	site, naps := "http://"+startGreeting(t, f)+"/hello", "http://"+startNaps(t, f)
	cases := []timedCase{
		{name: "nginx", url: site, rate: 1000}, {name: "nginx", url: site, rate: 2000},
		{name: "net/http", url: naps + "/", rate: 2000}, {name: "net/http, 1 ms late", url: naps + napPath, rate: 2000},
	}
	for range clockRounds {
		for i := range cases {
			c := &cases[i]
			c.rounds = append(c.rounds, timeRun(t, f, c.url, c.rate))
		}
	}
	t.Logf("\n%s", clockTable(cases))
	for _, c := range cases {
		if err := c.check(); err != nil {
			t.Errorf("%s, %.0f/s: %v", c.name, c.rate, err)
		}
	}
}

// clockCPUs are the processors of the test.
type clockCPUs struct{ all, server, generator []int }

// startGreeting starts nginx alone and returns its address.
func startGreeting(t *testing.T, f clockCPUs) (address string) {
	t.Helper()
	root := programs.Root(t)
	spec, err := contender.Find(filepath.Join(root, "contenders"), "nginx-files")
	if err != nil {
		t.Fatal(err)
	}
	c, err := programs.Tools(t).Prepare(t.Context(), spec)
	if err != nil {
		t.Skip(err)
	}
	conf, err := contender.ParseNginxConf(filepath.Join(root, "experiments", "targets", "server", "nginx.conf"))
	if err != nil {
		t.Fatal(err)
	}
	stage, err := contender.NewStage(contender.StageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stage.Close() })
	bench := trial.Bench{Request: equal.Request{Method: http.MethodGet, Path: "/hello", Host: "localhost"}}
	r, err := stage.Start(t.Context(), c, contender.Setting{Cores: 1, CPUs: f.server, Conf: conf, Host: "localhost"},
		bench.Ready(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	return r.Address
}

// stepAside keeps the threads of this process that generate no load, such as those of the runtime,
// off the generator's processor. Otherwise the kernel may schedule one of them when a call of the
// generator ends: after the kernel has recorded the time and before the generator can. At a
// thousand requests per second, the generator then measures 50 µs too much for one exchange in a
// hundred.
func stepAside(t *testing.T, f clockCPUs) {
	t.Helper()
	move := func(cpus []int) {
		var set unix.CPUSet
		for _, cpu := range cpus {
			set.Set(cpu)
		}
		threads, err := filepath.Glob("/proc/self/task/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(filepath.Base(thread))
			if err == nil {
				err = unix.SchedSetaffinity(id, &set)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) { // the thread may have ended
				t.Fatal(err)
			}
		}
	}
	move(f.server)
	t.Cleanup(func() { move(f.all) })
}

// timeRun loads a server while the kernel records the times.
func timeRun(t *testing.T, f clockCPUs, url string, rate float64) (r timed) {
	t.Helper()
	var clock *stamps
	var begin, end error
	p := load.Plan{
		URL: url, Connections: 64, Threads: 1, CPUs: f.generator[:1], Pace: load.Constant(rate),
		Warmup: 500 * time.Millisecond, Duration: 3 * time.Second, Timeout: 30 * time.Second,
		Trace: &load.Trace{
			Started: func() { clock, begin = takeStamps(os.Getpid()) },
			Ended: func() {
				if begin == nil {
					r.kernel, end = clock.Times()
				}
			},
		},
	}
	var err error
	r.result, err = load.Run(context.Background(), p)
	if clock != nil {
		defer func() { _ = clock.Close() }()
	}
	if err := errors.Join(err, begin, end, r.complete()); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return r
}

// complete returns an error if the clocks counted different numbers of exchanges.
func (r timed) complete() error {
	if r.result == nil {
		return nil // there is an error already
	}
	if len(r.kernel) == 0 {
		return errors.New("the kernel recorded no exchange (does the test run in its own PID namespace?)")
	}
	if n := r.result.Errors.Total(); n > 0 {
		return fmt.Errorf("%d errors: %s", n, r.result.Errors.First)
	}
	if missed := math.Abs(float64(len(r.kernel)) - float64(r.result.Requests)); missed >
		clockMissed*float64(r.result.Requests) {
		return fmt.Errorf("the generator counted %d exchanges, the kernel %d", r.result.Requests, len(r.kernel))
	}
	return nil
}

// at returns the kernel's quantile, by the rule of package hist.
func (r timed) at(q float64) time.Duration {
	return r.kernel[max(0, int(math.Ceil(q*float64(len(r.kernel))))-1)]
}

// mine returns the generator's quantile.
func (r timed) mine(q float64) time.Duration { return r.result.Service.Quantile(q) }

// typical returns the median of a figure over the rounds.
func (c *timedCase) typical(figure func(timed) float64) float64 {
	var all []float64
	for _, r := range c.rounds {
		all = append(all, figure(r))
	}
	middle := stat.Median(all)
	return middle.Mid
}

func (c *timedCase) busy() float64 {
	return c.typical(func(r timed) float64 { return r.result.Generator.Busy })
}

// apart50 returns the generator's median minus the kernel's, in microseconds.
func (c *timedCase) apart50() float64 {
	return c.typical(func(r timed) float64 { return micros(r.mine(0.5) - r.at(0.5)) })
}

// apart99 returns the generator's 99th percentile minus the kernel's, as a share of the latter.
func (c *timedCase) apart99() float64 {
	return c.typical(func(r timed) float64 { return float64(r.mine(0.99))/float64(r.at(0.99)) - 1 })
}

// check returns an error for each figure beyond its limit.
func (c *timedCase) check() error {
	var errs []error
	logf := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if busy := c.busy(); busy > clockBusy {
		logf("the generator was %.0f%% busy, want at most %.0f%%", 100*busy, 100*clockBusy)
	}
	if d := c.apart50(); math.Abs(d) > micros(clockP50) {
		logf("the generator's median differs by %.1f µs, want at most %v", d, clockP50)
	}
	if d := c.apart99(); math.Abs(d) > clockP99 {
		logf("the generator's 99th percentile differs by %.1f%%, want at most %.0f%%", 100*d, 100*clockP99)
	}
	return errors.Join(errs...)
}

// clockTable formats the medians of the rounds as a table.
func clockTable(cases []timedCase) string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "server\trate\tbusy\tp50: generator\tkernel\tapart\tp99: generator\tkernel\tapart")
	for _, c := range cases {
		quantile := func(q float64) (mine, kernel float64) {
			return c.typical(func(r timed) float64 { return micros(r.mine(q)) }),
				c.typical(func(r timed) float64 { return micros(r.at(q)) })
		}
		mine50, kernel50 := quantile(0.5)
		mine99, kernel99 := quantile(0.99)
		fmt.Fprintf(w, "%s\t%.0f/s\t%.0f%%\t%.1f µs\t%.1f µs\t%+.1f µs\t%.1f µs\t%.1f µs\t%+.1f%%\n", c.name, c.rate, 100*c.busy(),
			mine50, kernel50, c.apart50(), mine99, kernel99, 100*c.apart99())
	}
	_ = w.Flush()
	return s.String()
}

// startNaps starts this program as a server, in another process on the servers' processor. It
// returns the address.
func startNaps(t *testing.T, f clockCPUs) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(f.server[0]), os.Args[0],
		"-test.run=^TestClockIsTheKernels$")
	c.Env = append(os.Environ(), clockServer+"=1")
	out, err := c.StdoutPipe()
	in, inErr := c.StdinPipe() // it ends with this process
	if err := cmp.Or(err, inErr, c.Start()); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cancel()
		_ = c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// serveNaps serves until standard input ends. It does not return.
func serveNaps() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == napPath {
				time.Sleep(nap)
			}
			_, _ = io.WriteString(w, "Hello World\n")
		}))
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
