package proc_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/testkit"
)

// TestMain lets the test binary be the observed processes.
func TestMain(m *testing.M) {
	switch os.Getenv("PROC_TEST_ROLE") {
	case "burn":
		for {
			_ = fmt.Sprint(1)
		}
	case "sleep":
		time.Sleep(time.Minute)
	case "doze":
		for {
			time.Sleep(time.Millisecond)
		}
	default:
		os.Exit(testkit.Tests{M: m}.Run())
	}
}

// start starts a role in a process group of its own.
func start(t *testing.T, role string) (*exec.Cmd, *testkit.Process) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "PROC_TEST_ROLE="+role)
	return c, testkit.Start(t, c)
}

// costOf returns what a process costs from now on, once it is enough.
func costOf(t *testing.T, pid int, isEnough func(proc.Cost) bool) (cost proc.Cost) {
	t.Helper()
	family, err := proc.Family(pid)
	if err != nil || len(family) != 1 {
		t.Fatal(family, err)
	}
	before := testkit.Value(proc.Usages(family))(t)
	testkit.WaitFor(t, "the cost", func() bool {
		costs := proc.Costs(before, testkit.Value(proc.Usages(family))(t))
		if len(costs) != 1 {
			t.Fatal(costs)
		}
		cost = costs[0]
		return isEnough(cost)
	})
	return cost
}

// The measured cost of a busy process is the CPU time that the kernel reports when it ends.
func TestCostIsWhatTheKernelReportsAtTheEnd(t *testing.T) {
	c, p := start(t, "burn")
	cost := costOf(t, c.Process.Pid, func(c proc.Cost) bool { return c.CPU() > 100*time.Millisecond })
	c.Process.Kill()
	p.Wait()
	billed := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	testkit.Between(t, cost.CPU(), billed/4, billed+10*time.Millisecond, "CPU time, for the whole life", billed)
	if cost.User < cost.Sys || cost.RSS < 1<<20 || cost.PID != c.Process.Pid {
		t.Errorf("%+v", cost)
	}
	if cost.CPU()%(10*time.Millisecond) == 0 {
		t.Errorf("%v was counted in ticks, not in nanoseconds", cost.CPU())
	}
}

// A process that sleeps often has many voluntary switches and few involuntary ones.
func TestVoluntaryAndInvoluntarySwitchesDiffer(t *testing.T) {
	c, _ := start(t, "doze")
	costOf(t, c.Process.Pid, func(c proc.Cost) bool { return c.Voluntary > 0 }) // its start takes CPU time
	cost := costOf(t, c.Process.Pid, func(c proc.Cost) bool { return c.Voluntary >= 50 })
	if cost.Voluntary < 2*cost.Involuntary {
		t.Errorf("%+v", cost)
	}
}

// The process's clock determines the total, clock ticks the shares of user and system time.
func TestCostsCombineClockAndTicks(t *testing.T) {
	const ms = time.Millisecond
	was := proc.Usage{
		Ran: 205 * ms, Cost: proc.Cost{PID: 5, Name: "p", User: 100 * ms, Sys: 100 * ms, Voluntary: 10, Involuntary: 20,
			RSS: int64(os.Getpagesize())},
	}
	for _, test := range []struct {
		name string
		is   proc.Usage
		want proc.Cost
	}{
		{"nanoseconds",
			proc.Usage{Ran: 613 * ms, Cost: proc.Cost{PID: 5, Name: "p", User: 400 * ms, Sys: 200 * ms, Voluntary: 15,
				Involuntary: 22, RSS: int64(4*os.Getpagesize() + 1)}},
			proc.Cost{PID: 5, Name: "p", User: 306 * ms, Sys: 102 * ms, Voluntary: 5, Involuntary: 2,
				RSS: int64(4*os.Getpagesize() + 1)}},
		{"less than a tick",
			proc.Usage{Ran: 207 * ms, Cost: proc.Cost{PID: 5, User: 100 * ms, Sys: 100 * ms, Voluntary: 10, Involuntary: 20}},
			proc.Cost{PID: 5, User: ms, Sys: ms}},
		{"more than its ticks",
			proc.Usage{Ran: 705 * ms, Cost: proc.Cost{PID: 5, User: 400 * ms, Sys: 200 * ms, Voluntary: 10, Involuntary: 20}},
			proc.Cost{PID: 5, User: 375 * ms, Sys: 125 * ms}},
		{"children ended",
			proc.Usage{Ran: 205 * ms, EndedUser: 30 * ms, EndedSys: 10 * ms,
				Cost: proc.Cost{PID: 5, User: 100 * ms, Sys: 100 * ms, Voluntary: 10, Involuntary: 20}},
			proc.Cost{PID: 5, User: 30 * ms, Sys: 10 * ms}},
		{"the kernel does not tell",
			proc.Usage{Cost: proc.Cost{PID: 5, User: 130 * ms, Sys: 110 * ms, Voluntary: 10, Involuntary: 20}},
			proc.Cost{PID: 5, User: 30 * ms, Sys: 10 * ms}},
		{"new", proc.Usage{Ran: 44 * ms, Cost: proc.Cost{PID: 6, User: 20 * ms, Sys: 20 * ms, Voluntary: 7, Involuntary: 8}},
			proc.Cost{PID: 6, User: 22 * ms, Sys: 22 * ms, Voluntary: 7, Involuntary: 8}},
	} {
		got := proc.Costs([]proc.Usage{was}, []proc.Usage{test.is})
		if len(got) != 1 || got[0] != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

// The parent's time of ended children includes what was counted for a child before it ended.
func TestEndedChildrenAreCountedOnce(t *testing.T) {
	const ms = time.Millisecond
	parent := func(ran, ended time.Duration) proc.Usage {
		return proc.Usage{Ran: ran, EndedUser: ended, Cost: proc.Cost{PID: 5, User: ran}}
	}
	child := func(ran time.Duration) proc.Usage { return proc.Usage{Ran: ran, Cost: proc.Cost{PID: 6, User: ran}} }
	looks := [][]proc.Usage{
		{parent(10*ms, 0)}, {parent(20*ms, 0), child(300 * ms)}, {parent(30*ms, 340*ms)},
		{parent(40*ms, 350*ms)}, // no look found this short-lived child
	}
	for i, want := range []time.Duration{10*ms + 300*ms, 10*ms + 40*ms, 10*ms + 10*ms} {
		testkit.Equal(t, proc.Spent(looks[i], looks[i+1]), want, i)
	}
}

func TestUsagesIncludeEndedThreads(t *testing.T) {
	self := []proc.Process{{PID: os.Getpid(), Name: "self"}}
	before := testkit.Value(proc.Usages(self))(t)
	var spent time.Duration
	begun, ended := make(chan bool), make(chan int)
	var work func()
	work = func() {
		runtime.LockOSThread() // never unlocked: the thread ends, unless it is the main one
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			go work() // on another thread, because this goroutine has the main one
			<-begun
			return
		}
		close(begun)
		var began, now unix.Timespec
		for unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID,
			&began); spent < 50*time.Millisecond; spent = time.Duration(now.Nano() - began.Nano()) {
			unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
		}
		ended <- unix.Gettid()
	}
	go work()
	thread := filepath.Join("/proc/self/task", strconv.Itoa(<-ended))
	testkit.WaitFor(t, "the thread to end", func() bool { _, err := os.Stat(thread); return err != nil })
	after := testkit.Value(proc.Usages(self))(t)
	if got := proc.Costs(before, after)[0].CPU(); got < spent {
		t.Errorf("%v of CPU time, want at least the %v of the ended thread", got, spent)
	}
}

func TestUsagesLeaveOutEndedProcesses(t *testing.T) {
	c, p := start(t, "sleep")
	c.Process.Kill()
	p.Wait()
	usages, err := proc.Usages([]proc.Process{{PID: c.Process.Pid}, {PID: os.Getpid(), Name: "me"}})
	if err != nil || len(usages) != 1 || usages[0].PID != os.Getpid() || usages[0].Name != "me" {
		t.Errorf("%+v, %v", usages, err)
	}
}

func TestHasEnvComparesWholeVariables(t *testing.T) {
	c, _ := start(t, "sleep")
	p := proc.Process{PID: c.Process.Pid}
	testkit.Equal(t, p.HasEnv("PROC_TEST_ROLE=sleep"), true, "its variable, as soon as it has begun")
	if p.HasEnv("PROC_TEST_ROLE=slee") || p.HasEnv("PROC_TEST_ROLE=") {
		t.Error("a part of the variable matches")
	}
}

func TestFamilyIncludesDescendantsInOtherGroups(t *testing.T) {
	c := exec.Command("sh", "-c", "setsid sleep 60 & wait")
	p := testkit.Start(t, c)
	var names []string
	testkit.WaitFor(t, "the descendant", func() bool {
		names = nil
		for _, p := range testkit.Value(proc.Family(c.Process.Pid))(t) {
			names = append(names, p.Name)
		}
		return slices.Contains(names, "sleep")
	})
	family, _ := proc.Family(c.Process.Pid)
	for _, p := range family {
		syscall.Kill(p.PID, syscall.SIGKILL)
	}
	p.Wait()
	if !slices.Contains(names, "sh") || !slices.Contains(names, "sleep") || len(names) != 2 {
		t.Errorf("family %v", names)
	}
}

func TestListenersOfAProcess(t *testing.T) {
	us := []proc.Process{{PID: os.Getpid()}}
	for network, address := range map[string]string{
		"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(testkit.ShortDir(t), "s"),
	} {
		l, err := net.Listen(network, address)
		if err != nil && network == "tcp6" {
			t.Log("without IPv6:", err)
			continue
		}
		testkit.Must(t, err)
		defer l.Close()
		place := l.Addr().String()
		if network == "unix" {
			place = "unix:" + place
		} else {
			testkit.Connect(t, l, new(net.Dialer)) // connections are not listeners
		}
		all, err := proc.Listening(us)
		if err != nil || all[place] != us[0] {
			t.Errorf("%s: %v %v", place, all, err)
		}
		l.Close()
		all, err = proc.Listening(us)
		if err != nil || all[place] == us[0] {
			t.Errorf("%s, closed: %v %v", place, all, err)
		}
	}
}

func TestMachineFigures(t *testing.T) {
	numbers := make([]int, runtime.NumCPU())
	for i := range numbers {
		numbers[i] = i
	}
	cpus := proc.NewCPUs(numbers)
	before, stolen, err := cpus.Use()
	if err != nil || before <= stolen {
		t.Fatal(before, stolen, err)
	}
	for spun := time.Now(); time.Since(spun) < 200*time.Millisecond; { // makes the machine busy
	}
	after, _, err := cpus.Use()
	if busy := after - before; err != nil || busy < 50*time.Millisecond || busy > time.Hour {
		t.Errorf("busy for %v, %v", busy, err)
	}
	absent := proc.NewCPUs([]int{1 << 20})
	if busy, stolen, err := absent.Use(); busy+stolen != 0 || err != nil {
		t.Errorf("a CPU that does not exist: %v, %v, %v", busy, stolen, err)
	}
	if proc.CPUModel() == "" || proc.MemoryTotal() < 1<<20 {
		t.Error(proc.CPUModel(), proc.MemoryTotal())
	}
}

// A file counts while it is open and has no name, with its size.
func TestTemporaryFilesHaveNoName(t *testing.T) {
	own := []proc.Process{{PID: os.Getpid()}}
	size := func() int64 {
		t.Helper()
		return testkit.Value(proc.TemporaryFiles(own))(t)
	}
	before := size()
	f := testkit.Value(os.CreateTemp(t.TempDir(), ""))(t)
	defer f.Close()
	const length = 12345
	if _, err := f.Write(make([]byte, length)); err != nil || size() != before {
		t.Errorf("%v, %d bytes with a name, want %d", err, size(), before)
	}
	if err := os.Remove(f.Name()); err != nil || size() != before+length {
		t.Errorf("%v, %d bytes, want %d", err, size(), before+length)
	}
	f.Close()
	testkit.Equal(t, size(), before, "bytes with a closed file")
	own[0].PID = 1 << 29 // above any process's number
	testkit.Equal(t, size(), 0)
}
