package trial_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// TestMain lets the test binary be a contender: "play ROLE PLACE".
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "play" {
		play(os.Args[2], os.Args[3])
	}
	os.Exit(testkit.Tests{M: m}.Run())
}

// play serves on a port or on a socket. It collects no garbage, which it might do while it receives
// no request.
func play(role, place string) {
	debug.SetGCPercent(-1)
	network, address := "tcp", "127.0.0.1:"+place
	if filepath.IsAbs(place) {
		network, address = "unix", place
	}
	var served atomic.Int64
	if role == "never" {
		os.Exit(5)
	}
	if role == "restless" {
		go func() {
			for n := 0; ; n++ {
				runtime.KeepAlive(n)
			}
		}()
	}
	serve := http.Serve
	if role == "fastcgi" {
		serve = fcgi.Serve
	}
	l, err := net.Listen(network, address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	err = serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Millisecond) // a load leaves the processors to other tests
		if role == "closes" {
			w.Header().Set("Connection", "close")
		}
		if role == "shaped" && (r.Proto != "HTTP/1.0" || r.Header.Get("X-A") != "b") {
			w.WriteHeader(http.StatusBadRequest)
		}
		if role == "chatty" {
			chatter()
		}
		if role == "ponders" && served.Load() >= requested {
			time.Sleep(ponder)
		}
		if role == "dies" && served.Load() >= requested {
			fmt.Fprintln(os.Stderr, "enough")
			os.Exit(4)
		}
		fmt.Fprint(w, "hello")
		served.Add(1)
	}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

const (
	requested = 2                      // requests before the load
	ponder    = 400 * time.Millisecond // time of a pondering contender for each request under load
)

func TestLayoutSeparatesServersAndGenerator(t *testing.T) {
	for _, test := range []struct {
		cpus               []int
		cores              int
		servers, generator []int
	}{
		{[]int{0, 1}, 1, []int{0}, []int{1}},
		{[]int{0, 1, 2, 3}, 1, []int{0}, []int{3, 2}},
		{[]int{2, 5, 7}, 2, []int{2, 5}, []int{7}},
		{[]int{0}, 1, nil, nil},
		{[]int{0, 1}, 2, nil, nil},
		{[]int{0, 1}, 0, nil, nil},
	} {
		servers, generator := trial.Layout(test.cpus, test.cores)
		if !slices.Equal(servers, test.servers) || !slices.Equal(generator, test.generator) {
			t.Errorf("%v, %d cores: %v and %v", test.cpus, test.cores, servers, generator)
		}
	}
}

func bench(t *testing.T) *trial.Bench {
	t.Helper()
	s := testkit.Value(contender.NewStage(contender.StageOptions{}))(t)
	t.Cleanup(func() {
		testkit.Check(t, s.Close())
	})
	return &trial.Bench{
		Stage: s, CPUs: allCPUs(t), Request: equal.Request{Method: "GET", Path: "/", Host: "a"},
		Warmup: 50 * time.Millisecond, Measure: 200 * time.Millisecond,
	}
}

func allCPUs(t *testing.T) []int {
	t.Helper()
	return testkit.Value(contender.AllCPUs())(t)
}

// run measures a contender alone.
func run(b *trial.Bench, c *contender.Contender, cores int) (sample.Record, error) {
	fresh := condition(cores)
	fresh.Scenario.Fresh = true
	all, err := b.Block(context.Background(), trial.Block{
		Number: 1, Condition: fresh, Members: []trial.Member{{Name: "x", Contender: c}},
	})
	return slices.Concat(all, make([]sample.Record, 1))[0], err
}

func actor(role string) *contender.Contender { return actorAt(role, contender.HTTP, "{port}") }

func actorAt(role, protocol, place string) *contender.Contender {
	s := &contender.Spec{Name: role, Title: role, Protocol: protocol, Run: "{bin} play " + role + " " + place}
	s.Ready.Within = yamlfile.Duration(30 * time.Second)
	return &contender.Contender{Spec: s, Bin: os.Args[0]}
}

func condition(cores int) sample.Condition { return sample.Condition{Cores: cores, Connections: 8} }

func TestTrialMeasuresContender(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	before := allCPUs(t)
	for _, cores := range []int{1, 0} {
		r, err := run(bench(t), actor("server"), cores)
		if err != nil || r.Failure != "" {
			t.Fatal(err, r.Failure)
		}
		// The kernel divides CPU time by samples: either part may be 0.
		user, sys, role := r.UserUs(""), r.SysUs(""), contender.RoleApplication
		if r.Load.Requests == 0 || user+sys <= 0 || user != r.UserUs(role) || sys != r.SysUs(role) {
			t.Errorf("%d requests, %v µs user, %v µs system", r.Load.Requests, user, sys)
		}
		if w := r.WeightUs(); w < 1 || w > 1000 || r.Sum("", sample.RSS) < 1<<20 {
			t.Errorf("%v µs per request, %v bytes resident", w, r.Sum("", sample.RSS))
		}
		if r.Load.Seconds < 0.15 || r.Others < 0 {
			t.Errorf("measured for %v s, others %v", r.Load.Seconds, r.Others)
		}
		// There is a bound thread for each of the generator's processors. The generator determines the
		// number of unbound ones.
		threads := min(runtime.NumCPU(), 8)
		if _, generator := trial.Layout(before, cores); generator != nil {
			threads = min(len(generator), 8)
		}
		testkit.Equal(t, r.Load.Threads, threads, "threads that generate the load, with", cores, "cores")
	}
	testkit.Equal(t, allCPUs(t), before, "processors of this process")
}

// A contender without a response in the measured time is waited for: it is slow and has not failed.
func TestSlowContenderIsWaitedFor(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	b := bench(t)
	b.Warmup, b.Measure = 0, ponder/8
	r, err := run(b, actor("ponders"), 1)
	if err != nil || r.Failure != "" {
		t.Fatal(err, r.Failure)
	}
	if r.Load.Requests == 0 || r.Load.Errors.Total() > 0 || r.Load.Service.Max() < ponder/2 {
		t.Errorf("%d requests, errors %+v, the longest took %v", r.Load.Requests, r.Load.Errors, r.Load.Service.Max())
	}
}

func TestLoadHasTheFormOfTheRequest(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	b := bench(t)
	b.Request.Version, b.Request.Header = "1.0", []string{"X-A: b", "Connection: Keep-Alive"}
	for _, perConnection := range []int{0, 1} {
		b.Request.PerConnection = perConnection
		r, err := run(b, actor("shaped"), 1)
		if err != nil || r.Failure != "" {
			t.Fatal(err, r.Failure)
		}
		if n := r.Load.Requests; n == 0 || r.Load.Errors.Total() > 0 || perConnection == 0 && r.Load.Connects > 0 ||
			perConnection == 1 && r.Load.Connects < n/2 {
			t.Errorf("%d a connection: %d requests, %d connections, errors %+v", perConnection, n, r.Load.Connects,
				r.Load.Errors)
		}
	}
}

// A contender is loaded at its address and in its protocol, in a folder of any name.
func TestDirectLoadWithoutFront(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	folder := filepath.Join(t.TempDir(), "a:b%2Fc?d#e f")
	testkit.Must(t, os.Mkdir(folder, 0o755))
	t.Setenv("TMPDIR", folder)
	b := bench(t)
	for _, c := range []*contender.Contender{
		actorAt("server", contender.HTTP, "{socket}"), actorAt("fastcgi", contender.FastCGI, "{socket}"),
		actorAt("fastcgi", contender.FastCGI, "{port}"),
	} {
		r, err := run(b, c, 1)
		if err != nil || r.Failure != "" {
			t.Error(c.Run, err, r.Failure)
			continue
		}
		if r.Load.Requests == 0 || r.Load.Errors.Total() > 0 || r.WeightUs() <= 0 {
			t.Errorf("%s: %d requests, errors %+v, %v µs", c.Run, r.Load.Requests, r.Load.Errors, r.WeightUs())
		}
		testkit.Equal(t, r.Load.FastCGI != nil, c.Protocol == contender.FastCGI, c.Run, "loaded by FastCGI")
	}
}

// A record's figures are sums over its processes, per request.
func TestRecordSumsProcesses(t *testing.T) {
	r := sample.Record{
		Load: &load.Result{Requests: 100, Seconds: 2, Connects: 3},
		Costs: map[string][]proc.Cost{
			contender.RoleNginx: {
				{User: 100 * time.Microsecond, Sys: 200 * time.Microsecond, Voluntary: 20, Involuntary: 1, RSS: 1000},
				{User: 100 * time.Microsecond, Voluntary: 10, RSS: 500},
			},
			contender.RoleApplication: {{User: 300 * time.Microsecond, Sys: 300 * time.Microsecond, Voluntary: 5,
				Involuntary: 4, RSS: 2000}},
		},
	}
	testkit.Equal(t, r.WeightUs(), 10, "µs per request")
	if user, sys := r.UserUs(contender.RoleNginx), r.SysUs(contender.RoleNginx); user != 2 || sys != 2 {
		t.Errorf("nginx: %v user, %v system", user, sys)
	}
	if user, sys := r.UserUs(""), r.SysUs(""); user != 5 || sys != 5 {
		t.Errorf("all: %v user, %v system", user, sys)
	}
	if v, i := r.PerRequest("", sample.Voluntary), r.PerRequest("", sample.Involuntary); v != 0.35 || i != 0.05 {
		t.Errorf("%v and %v switches", v, i)
	}
	testkit.Equal(t, r.Sum("", sample.RSS), 3500, "bytes resident")
}

func TestDeathUnderLoadIsAFailureOfTheContender(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	r := testkit.Value(run(bench(t), actor("dies"), 1))(t)
	if !strings.Contains(r.Failure, "ended by itself (exit status 4)") || !strings.Contains(r.Failure, "enough") ||
		r.Load != nil {
		t.Errorf("%+v", r)
	}
}

// A condition determines GOMAXPROCS and nginx's workers. By default they are the number of cores.
func TestSettingFollowsCondition(t *testing.T) {
	b := &trial.Bench{CPUs: []int{3, 4, 5}}
	for _, test := range []struct {
		c              sample.Condition
		procs, workers int
		cpus           int
	}{
		{sample.Condition{Cores: 1}, 1, 1, 1},
		{sample.Condition{}, 3, 3, 0},
		{sample.Condition{Procs: 8}, 8, 3, 0},
		{sample.Condition{Cores: 1, Procs: 4}, 4, 1, 1},
	} {
		if s := b.Setting(test.c); s.Cores != test.procs || s.Workers != test.workers || len(s.CPUs) != test.cpus {
			t.Errorf("%+v: %+v", test.c, s)
		}
	}
}
