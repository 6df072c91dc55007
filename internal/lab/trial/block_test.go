package trial_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/testkit"
)

// company returns a block of contenders that this binary plays, by their roles. The first is the
// control.
func company(roles ...string) trial.Block {
	k := trial.Block{Number: 1, Condition: sample.Condition{Cores: 1, Connections: 8}, Control: roles[0], Seed: 5}
	for _, role := range roles {
		k.Members = append(k.Members, trial.Member{Name: role, Contender: actor(strings.TrimRight(role, "+"))})
	}
	return k
}

func block(t *testing.T, b *trial.Bench, k trial.Block) map[string]*sample.Record {
	t.Helper()
	records := testkit.Value(b.Block(t.Context(), k))(t)
	by := make(map[string]*sample.Record)
	for i := range records {
		name := records[i].Contender
		if records[i].Alone != "" {
			name += " alone"
		}
		testkit.Equal(t, by[name] == nil, true, "a single record of", name)
		by[name] = &records[i]
	}
	return by
}

// In each round every contender, also the control, has one slice. All slices are equally long. The
// record of a contender is the sum of its slices. A slice without a response is left out: on a busy
// machine a contender may not run meanwhile.
func TestEachRoundHasOneSliceOfEachContender(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	b := bench(t)
	roles := []string{"server", "server+", "server++", "closes"}
	b.IgnoreRest()
	k, rates := company(roles...), make(map[string][]float64) // before the warm-up, after it, and after each round but the last
	k.Turn = func(name string, perSecond float64) { rates[name] = append(rates[name], perSecond) }
	records := block(t, b, k)
	if len(records) != len(roles) {
		t.Fatalf("%d records of %d contenders", len(records), len(roles))
	}
	rounds := len(rates["server"]) - 1
	if rounds < 2 {
		t.Errorf("%d rounds", rounds)
	}
	for name, r := range records {
		if r.Failure != "" {
			t.Fatalf("%s: %s", name, r.Failure)
		}
		testkit.Equal(t, len(rates[name])-1, rounds, "turns of", name)
		var got, want []int // rounds before the last
		for _, s := range r.Slices {
			if s.Round < rounds {
				got = append(got, s.Round)
			}
		}
		for i, rate := range rates[name][2:] {
			if rate > 0 {
				want = append(want, i+1)
			}
		}
		testkit.Equal(t, got, want, "rounds of the slices of", name)
		checkSlices(t, r, len(r.Slices) == rounds)
	}
	if children, err := proc.Children(os.Getpid()); err != nil || len(children) != 0 {
		t.Errorf("left: %v, %v", children, err)
	}
}

// checkSlices checks the slices of a contender, and that they are its record if they are complete.
func checkSlices(t *testing.T, r *sample.Record, complete bool) {
	t.Helper()
	name := r.Contender
	var requests uint64
	var spent, took time.Duration
	for _, s := range r.Slices {
		requests += s.Requests
		took += s.Elapsed
		for role, cpu := range s.CPU {
			if role != contender.RoleApplication || cpu <= 0 {
				t.Errorf("%s: %v of %s", name, cpu, role)
			}
			spent += cpu
		}
	}
	if r.Load.Requests != requests || r.Load.Errors.Total() != 0 || r.Sum("", sample.RSS) < 1<<20 {
		t.Errorf("%s: %d requests in slices: %+v", name, requests, r.Load)
	}
	if r.Asleep.For < 200*time.Millisecond || r.Asleep.CPU < 0 {
		t.Errorf("%s slept: %+v", name, r.Asleep)
	}
	if !complete {
		return
	}
	user, sys := r.UserUs(contender.RoleApplication), r.SysUs(contender.RoleApplication)
	if total := spent.Seconds() * 1e6 / float64(requests); math.Abs(total/(user+sys)-1) > 0.01 ||
		math.Abs(total/r.WeightUs()-1) > 0.01 {
		t.Errorf("%s: %v µs in slices, %v + %v in the record", name, total, user, sys)
	}
	testkit.Between(t, r.Load.Seconds, took.Seconds()-1e-6, took.Seconds()+1e-6, name, "seconds in the record")
}

// Without the control nothing can be compared: the block ends, and the others have not failed.
func TestDeadContenderDoesNotDisturbTheOthers(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	for _, test := range []struct {
		roles, measured []string
		failures        map[string]string
	}{
		{[]string{"server", "dies", "server+", "never"}, []string{"server", "server+"},
			map[string]string{"dies": "enough", "never": "ended by itself"}},
		{[]string{"server", "dies"}, []string{"server"}, map[string]string{"dies": "enough"}},
		{[]string{"dies", "server"}, nil, map[string]string{"dies": "enough"}},
	} {
		b := bench(t)
		b.IgnoreRest()
		records := block(t, b, company(test.roles...))
		for _, name := range test.measured {
			if r := records[name]; r == nil || len(r.Slices) == 0 {
				t.Errorf("%v: %s was not measured: %+v", test.roles, name, r)
			}
		}
		for name, want := range test.failures {
			if r := records[name]; r == nil || !strings.Contains(r.Failure, want) {
				t.Errorf("%v: %s: %+v, want %q", test.roles, name, r, want)
			}
		}
		for name, r := range records {
			testkit.Equal(t, r.Failure != "", test.failures[name] != "", test.roles, name, "failed:", r.Failure)
		}
	}
}

// A contender that uses CPU time without requests is measured alone, and so is the control, for
// comparison. With Together all members are.
func TestRestlessContenderIsMeasuredAlone(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	b := bench(t)
	b.BoundRest(0.001) // on a busy machine it gets little of the CPU that it wants
	k := company("server", "restless", "server+")
	records := block(t, b, k)
	for name, alone := range map[string]string{
		"server": "", "server+": "", "restless alone": "of a CPU", "server alone": "to be compared",
	} {
		if r := records[name]; r == nil || r.Failure != "" || !strings.Contains(r.Alone, alone) ||
			(alone == "") != (len(r.Slices) > 0) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	testkit.Equal(t, len(records), 4, "records")
	k.Together = true
	if records = block(t, b, k); len(records) != 3 || records["server+ alone"] == nil {
		t.Errorf("together: %d records", len(records))
	}
}

// If one process may not have the connections to all contenders, each contender is measured alone.
func TestContendersWithTooManyConnectionsAreMeasuredAlone(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	var was syscall.Rlimit
	testkit.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE,
		&syscall.Rlimit{Cur: trial.SpareFiles + 8 + 8, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)
	records := block(t, bench(t), company("server", "server+"))
	for _, name := range []string{"server alone", "server+ alone"} {
		if r := records[name]; r == nil || r.Failure != "" || !strings.Contains(r.Alone, "open files") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestInterruptedBlockLeavesNoProcesses(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	b := bench(t)
	ctx, cancel := context.WithCancel(t.Context())
	k, turns := company("server", "server+"), 0
	k.Turn = func(string, float64) {
		if turns++; turns == 4 {
			cancel()
		}
	}
	testkit.Fails(b.Block(ctx, k))(t, "")
	if children, err := proc.Children(os.Getpid()); err != nil || len(children) != 0 {
		t.Errorf("left: %v, %v", children, err)
	}
	testkit.Equal(t, allCPUs(t), b.CPUs, "processors of this process")
	_, generator := trial.Layout(b.CPUs, k.Cores)
	if left := threadsBoundTo(t, generator); generator != nil && len(left) > 0 {
		t.Errorf("threads %v still have only the generator's processors %v", left, generator)
	}
}

// threadsBoundTo returns the threads of this process that have exactly the given processors.
func threadsBoundTo(t *testing.T, cpus []int) (tids []int) {
	t.Helper()
	var want unix.CPUSet
	for _, cpu := range cpus {
		want.Set(cpu)
	}
	tasks := testkit.Value(filepath.Glob("/proc/self/task/[0-9]*"))(t)
	for _, task := range tasks {
		tid := testkit.Value(strconv.Atoi(filepath.Base(task)))(t)
		var set unix.CPUSet
		if unix.SchedGetaffinity(tid, &set) == nil && set == want { // it may have ended
			tids = append(tids, tid)
		}
	}
	return tids
}

// At a fixed rate, slices send the requests that are due, and no others. A busy machine may begin the
// slices late: then fewer are due.
func TestSlicesAtAFixedRateSendRequestsThatAreDue(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	const rate = 500
	b := bench(t)
	b.IgnoreRest()
	k := company("server", "server+")
	k.Rate = rate
	for name, r := range block(t, b, k) {
		if r.Failure != "" || r.Alone != "" {
			t.Errorf("%s: %s %s", name, r.Failure, r.Alone)
			continue
		}
		most := rate*r.Load.Seconds + float64(len(r.Slices)) // the first request of a slice is due at once
		if r.Load.Due > most || r.Load.Requests == 0 || float64(r.Load.Requests) > r.Load.Due+1 {
			t.Errorf("%s: %v due in %v s, %d responses", name, r.Load.Due, r.Load.Seconds, r.Load.Requests)
		}
	}
}
