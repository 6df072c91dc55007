package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/agent"
	"github.com/tarehq/tare/load/fleet"
	"github.com/tarehq/tare/load/hist"
)

// skewEnv is how far an agent's clock is ahead.
const skewEnv = "TARE_TEST_SKEW"

// This binary is the agents' program, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		o := agent.Options{}
		if skew, err := time.ParseDuration(os.Getenv(skewEnv)); err == nil {
			o.Epoch = time.Now().Add(-skew)
		}
		if err := agent.Serve(context.Background(), os.Stdin, bender{os.Stdout, os.Getenv(bendEnv)}, o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testkit.Tests{M: m}.Run())
}

// local is a set of local agents whose processes a test can find.
type local struct {
	*fleet.Fleet
	mu    sync.Mutex
	cmds  []*exec.Cmd
	notes []string
}

func open(t *testing.T, n int, o fleet.Options) *local {
	t.Helper()
	own := testkit.Value(os.Executable())(t)
	l := new(local)
	o.Note = func(text string) { l.notes = append(l.notes, text) }
	var hosts []fleet.Host
	for range n {
		h := fleet.Local("local", own)
		command := h.Command
		h.Command = func(ctx context.Context) (*exec.Cmd, error) {
			c, err := command(ctx)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.cmds = append(l.cmds, c)
			return c, err
		}
		hosts = append(hosts, h)
	}
	l.Fleet = testkit.Value(fleet.Open(context.Background(), hosts, o))(t)
	t.Cleanup(func() {
		for _, c := range l.cmds {
			testkit.Is(t, syscall.Kill(c.Process.Pid, 0), syscall.ESRCH, "process", c.Process.Pid)
		}
	})
	t.Cleanup(l.Close)
	return l
}

// host returns a host whose command has more variables in its environment.
func host(name string, variables []string, command ...string) fleet.Host {
	return fleet.Host{Name: name, Command: func(context.Context) (*exec.Cmd, error) {
		c := exec.Command(command[0], command[1:]...)
		c.Env = append(os.Environ(), variables...)
		return c, nil
	}}
}

func server(t testing.TB) (url string, served *atomic.Int64) {
	t.Helper()
	served = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if strings.HasSuffix(r.URL.Path, "0") {
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Fprint(w, r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s.URL, served
}

// Several agents send a plan once, and their figures are those of all their requests.
func TestFleetIsOneGenerator(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts agents")
	url, served := server(t)
	f := open(t, 3, fleet.Options{})
	const n = 2000
	var seconds, connected, started, ended int
	p := load.Plan{URL: url + "/{{seq}}", Template: true, Connections: 7, Requests: n, Samples: n,
		Trace: &load.Trace{Second: func(load.Second) { seconds++ }, Connected: func() { connected++ },
			Started: func() { started++ }, Ended: func() { ended++ }}}
	r := testkit.Value(f.Run(context.Background(), p))(t)
	if got := served.Load(); got != n || r.Requests != n || len(r.Samples) != n || len(r.Parts) != 3 {
		t.Fatalf("%d sent, %d counted, %d samples", got, r.Requests, len(r.Samples))
	}
	all := hist.New()
	for i, s := range r.Samples {
		all.Record(s.Done - s.Sent)
		if i > 0 && s.Done < r.Samples[i-1].Done {
			t.Fatal("samples are not in order")
		}
	}
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
		testkit.Equal(t, r.Latency.Quantile(q), all.Quantile(q), "quantile", q)
	}
	if connected != 1 || started != 1 || ended != 1 || r.Latency.Count() != n {
		t.Errorf("%d connected, %d started, %d ended", connected, started, ended)
	}
	names := ""
	for _, part := range r.Parts {
		names += part.Name + " "
		if part.ClockError <= 0 || part.Requests == 0 || part.Latency.Count != int64(part.Requests) {
			t.Errorf("%+v", part)
		}
	}
	testkit.Equal(t, names, "local-1 local-2 local-3 ")
}

func TestErrorsAreThoseOfOneProcess(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts agents")
	f := open(t, 2, fleet.Options{})
	_, err := f.Run(context.Background(), load.Plan{URL: "ftp://x", Connections: 4})
	testkit.As[*load.PlanError](t, err, "ftp")
	_, err = f.Run(context.Background(), load.Plan{URL: "http://127.0.0.1:1/", Connections: 1})
	testkit.As[*load.PlanError](t, err, "")
	r, err := f.Run(context.Background(), load.Plan{URL: "http://127.0.0.1:1/", Connections: 4, Timeout: time.Second})
	testkit.As[*load.ConnectError](t, err, "refused")
	testkit.Equal(t, r != nil, true, "a result with the error")
	url, _ := server(t)
	r = testkit.Value(f.Run(context.Background(), load.Plan{URL: url, Connections: 4, Requests: 20}))(t)
	testkit.Equal(t, r.Requests, 20)
}

// MaxErrors limits the errors of all agents together, and an interrupt keeps the figures.
func TestRunsEndEarly(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts agents")
	url, _ := server(t)
	f := open(t, 2, fleet.Options{})
	p := load.Plan{URL: url, Connections: 4, Duration: time.Hour}
	few := p
	few.MaxErrors, few.Expect.Status = 50, []int{201}
	r, err := f.Run(context.Background(), few)
	if err != nil || r.Errors.Total() < 50 {
		t.Errorf("%+v, %v", r.Errors, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.Trace = &load.Trace{Second: func(load.Second) { cancel() }}
	r, err = f.Run(ctx, p)
	if !errors.Is(err, context.Canceled) || r.Requests == 0 || r.Seconds < 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// An agent that dies or freezes is named, and its seconds are in the figures. A frozen one ends
// once it is continued.
func TestLostAgentsAreNamedAndCounted(t *testing.T) {
	testkit.Long(t, "it starts agents")
	for name, test := range map[string]struct {
		signal  syscall.Signal
		policy  fleet.OnLoss
		silence time.Duration
		want    string
	}{
		"killed, end":      {syscall.SIGKILL, fleet.End, time.Minute, "killed"},
		"killed, continue": {syscall.SIGKILL, fleet.Continue, time.Minute, "killed"},
		"frozen, continue": {syscall.SIGSTOP, fleet.Continue, 2 * time.Second, "nothing arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := server(t)
			f := open(t, 3, fleet.Options{OnLoss: test.policy, Silence: test.silence})
			p := load.Plan{URL: url, Connections: 6, Duration: 5 * time.Second, Pace: load.Constant(300)}
			once := sync.OnceFunc(func() {
				testkit.Check(t, f.cmds[1].Process.Signal(test.signal))
			})
			p.Trace = &load.Trace{Second: func(load.Second) { once() }}
			r, err := f.Run(context.Background(), p)
			lost, isLoss := errors.AsType[*fleet.Error](err)
			if r == nil || isLoss != (test.policy == fleet.End) || err != nil && !isLoss {
				t.Fatal(r, err)
			}
			if isLoss && !strings.Contains(lost.Error(), test.want) {
				t.Error(lost)
			}
			seen, requests := 0, uint64(0)
			for _, part := range r.Parts {
				requests += part.Requests
				if part.Lost == "" {
					continue
				}
				seen++
				if !strings.Contains(part.Lost, test.want) || part.Requests == 0 || part.Seconds < 1 ||
					part.Seconds >= 5 {
					t.Errorf("%+v", part)
				}
			}
			if seen != 1 || len(f.notes) != 1 || requests != r.Requests {
				t.Errorf("%d lost, notes %q, %d of %d requests", seen, f.notes, requests, r.Requests)
			}
			testkit.Equal(t, r.Seconds < 4.9, test.policy == fleet.End, "ended early")
			if !isLoss { // later runs use the others
				r, err := f.Run(context.Background(), load.Plan{URL: url, Connections: 4, Requests: 20})
				if err != nil || len(r.Parts) != 2 || r.Requests != 20 {
					t.Error(r, err)
				}
			}
		})
	}
}

// A clock that is an hour ahead or behind does not matter.
func TestSkewedClocksHaveNoEffect(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts agents")
	own := testkit.Value(os.Executable())(t)
	skewed := func(skew string) fleet.Host {
		return host("skewed "+skew, []string{skewEnv + "=" + skew}, own, "agent")
	}
	hosts := []fleet.Host{fleet.Local("local", own), skewed("1h"), skewed("-1h")}
	f := testkit.Value(fleet.Open(context.Background(), hosts, fleet.Options{}))(t)
	defer f.Close()
	url, _ := server(t)
	r, err := f.Run(context.Background(), load.Plan{URL: url, Connections: 6, Pace: load.Constant(300),
		Duration: 2 * time.Second})
	testkit.Must(t, err)
	for _, p := range r.Parts {
		// On a busy machine an agent may be late, but not by anything like an hour.
		if p.Began > 10*time.Second || p.ClockError > time.Second || p.Lost != "" || p.Seconds < 1.9 ||
			p.Requests == 0 {
			t.Errorf("%+v", p)
		}
	}
}

// Hosts without a working agent are errors, and nothing stays.
func TestUnusableHostsAreErrors(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts agents")
	own := testkit.Value(os.Executable())(t)
	command := func(words ...string) fleet.Host { return host("bad", nil, words...) }
	for want, host := range map[string]fleet.Host{
		"no such file":                    fleet.Local("bad", "/does/not/exist"),
		`7: \x1b[2J\x1b[Hreason`:          command("sh", "-c", `printf '\033[2J\033[Hreason\r\n' >&2; exit 7`),
		"bytes it printed are an agent's": command("yes"),
		"agent is missing":                command("echo", "tare-missing Linux x86_64"),
		"version 99":                      command("sh", "-c", `echo noise; echo '{"hello":{"version":99}}'; cat >/dev/null`),
	} {
		_, err := fleet.Open(context.Background(), []fleet.Host{fleet.Local("good", own), host}, fleet.Options{})
		testkit.Error(t, err, want)
		testkit.Error(t, err, "bad: ", want)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	testkit.Fails(fleet.Open(ctx, []fleet.Host{command("sleep", "60")}, fleet.Options{}))(t, "", "a host that never responds")
}

// bendEnv is how an agent's records are falsified.
const bendEnv = "TARE_TEST_BEND"

// bender is an agent's output that falsifies records. The agent writes one at a time.
type bender struct {
	to  io.Writer
	how string
}

func (b bender) Write(line []byte) (int, error) {
	bent := line
	switch {
	case b.how == "no pong" && bytes.Contains(line, []byte(`"pong"`)):
		return len(line), nil
	case b.how == "far second":
		bent = bytes.Replace(line, []byte(`"second":{"index":0`), []byte(`"second":{"index":30000000`), 1)
	case b.how == "long result":
		bent = regexp.MustCompile(`"seconds":[0-9.]+`).ReplaceAll(line, []byte(`"seconds":9e9`))
	case b.how == "samples" && bytes.Contains(line, []byte(`"began"`)):
		bent = []byte(`{"samples":[[0,0,0,0,0,0,0,0,0,0,0,0]]}` + "\n")
	case b.how == "escapes" && bytes.Contains(line, []byte(`"began"`)):
		bent = []byte(`{"error":{"kind":"failed","text":"\u001b[2J` + strings.Repeat("x", 9000) + `"}}` + "\n")
	}
	_, err := b.to.Write(bent)
	return len(line), err
}

// An agent whose records are false is lost, with the reason, and does not harm the others.
func TestFalseRecordsLoseTheAgent(t *testing.T) {
	testkit.Long(t, "it starts agents")
	own := testkit.Value(os.Executable())(t)
	url, _ := server(t)
	for how, want := range map[string]string{
		"no pong":     "replied to no ping",
		"far second":  "reported second 30000000, which has not begun",
		"long result": "a result of 9e+09 s",
		"samples":     "more than the 0 samples",
		"escapes":     "[2Jxxx",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			hosts := []fleet.Host{fleet.Local("good", own), host("bad", []string{bendEnv + "=" + how}, own, "agent")}
			f := testkit.Value(fleet.Open(context.Background(), hosts, fleet.Options{OnLoss: fleet.Continue}))(t)
			defer f.Close()
			r, err := f.Run(context.Background(), load.Plan{URL: url, Connections: 4, Pace: load.Constant(100),
				Duration: 1500 * time.Millisecond})
			if err != nil || len(r.Parts) != 2 {
				t.Fatalf("%+v, %v", r, err)
			}
			if good := r.Parts[0]; good.Lost != "" || good.Requests == 0 {
				t.Errorf("%+v", good)
			}
			lost := r.Parts[1].Lost
			if !strings.Contains(lost, want) || strings.Contains(lost, "\x1b") || len(lost) > 5000 {
				t.Errorf("%q, want %q", lost, want)
			}
		})
	}
}

// A login shell may print much, and may not end its last line.
func TestLoginShellsMayPrint(t *testing.T) {
	testkit.Long(t, "it starts agents")
	own, _ := programFor(t, 0)
	elsewhere(t, "Linux", ownMachine(t))
	bin := strings.Split(os.Getenv("PATH"), ":")[0]
	text := testkit.Value(os.ReadFile(filepath.Join(bin, "ssh")))(t)
	noisy := strings.Replace(string(text), "exec sh", "seq 10000; printf Welcome; exec sh", 1)
	testkit.Must(t, os.WriteFile(filepath.Join(bin, "ssh"), []byte(noisy), 0o755))
	hosts := []fleet.Host{fleet.SSH("h", []*fleet.Program{own})}
	f := testkit.Value(fleet.Open(context.Background(), hosts, fleet.Options{}))(t)
	f.Close()
}

// A command that is interrupted receives SIGTERM first: ssh then restores the terminal. One that
// ignores it is killed.
func TestCommandsCanRestoreTheTerminal(t *testing.T) {
	testkit.Long(t, "it starts agents")
	restored, ready := filepath.Join(t.TempDir(), "restored"), filepath.Join(t.TempDir(), "ready")
	testkit.Must(t, syscall.Mkfifo(ready, 0o600))
	for _, script := range []string{
		// no program runs that would delay the trap, or outlive the shell
		`trap 'echo >"$RESTORED"; exit' TERM; echo ready >"$READY"; while :; do :; done`,
		`trap '' TERM; echo ready >"$READY"; while :; do sleep 0.1; done`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			if text, err := os.ReadFile(ready); string(text) != "ready\n" {
				t.Errorf("%q, %v", text, err)
			}
		}()
		testkit.FailsWith(fleet.Open(ctx, []fleet.Host{host("h", []string{"RESTORED=" + restored, "READY=" + ready}, "sh", "-c",
			script)}, fleet.Options{}))(t, context.Canceled)
	}
	testkit.Value(os.Stat(restored))(t)
}

// A session of an agent is one of this process, over the channel.
func TestSessionOfAnAgent(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts agents")
	url, served := server(t)
	f := open(t, 1, fleet.Options{})
	ctx := context.Background()
	var sessions []*fleet.Session
	for range 2 {
		s := testkit.Value(f.OpenSession(ctx, load.Plan{URL: url, Connections: 2}, &agent.TLS{}))(t)
		sessions = append(sessions, s)
	}
	counted := uint64(0)
	for i := range 6 {
		n := slice(t, sessions[i%2], i > 1, served)
		if i > 1 && i%2 == 0 {
			counted += n
		}
	}
	if r := sessions[0].Close(); r.Requests != counted || r.Latency.Count() != int64(counted) ||
		sessions[0].Close() != r {
		t.Errorf("%+v, want %d requests", r, counted)
	}
	testkit.Fails(sessions[0].Slice(ctx, 1, true))(t, "", "a closed session")
	// Interrupted in a slice, it has no result. The other one works on.
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	third := testkit.Value(f.OpenSession(ctx, load.Plan{URL: url, Connections: 1}, nil))(t)
	testkit.FailsWith(third.Slice(short, time.Second, true))(t, context.DeadlineExceeded)
	if r := third.Close(); r.Requests != 0 || !strings.Contains(r.Errors.First, "interrupted") {
		t.Errorf("%+v", r)
	}
	testkit.WaitFor(t, "a request", func() bool {
		return testkit.Value(sessions[1].Slice(ctx, 30*time.Millisecond, true))(t).Requests > 0
	})
	_, err := f.OpenSession(ctx, load.Plan{URL: "http://127.0.0.1:1/", Connections: 1, Timeout: time.Second}, nil)
	testkit.As[*load.ConnectError](t, err, "")
	_, err = f.OpenSession(ctx, load.Plan{URL: url, Samples: 1}, nil)
	testkit.As[*load.PlanError](t, err, "")
	// The result of the interrupted session arrives during a run, and is not the run's.
	p := load.Plan{URL: url, Connections: 1, Requests: 20, Pace: load.Constant(15)}
	testkit.Equal(t, testkit.Value(f.Run(ctx, p))(t).Requests, 20)
}

// slice loads the server of a session until it has served a request, and returns the number of
// requests. On a busy machine it may serve none in a short time, so each slice is longer than the
// one before.
func slice(t *testing.T, s *fleet.Session, counts bool, served *atomic.Int64) uint64 {
	t.Helper()
	for d := 30 * time.Millisecond; d < time.Minute; d *= 2 {
		before := served.Load()
		slice, err := s.Slice(t.Context(), d, counts)
		n := uint64(served.Load() - before)
		if err != nil || counts && slice.Requests != n || slice.Elapsed < d {
			t.Fatalf("%+v, %v: %d served", slice, err, n)
		}
		if n > 0 {
			return n
		}
	}
	t.Fatal("no request was served")
	return 0
}

// An agent that dies or freezes in a slice is an error that names it.
func TestSessionOfALostAgent(t *testing.T) {
	testkit.Long(t, "it starts agents")
	for name, test := range map[string]struct {
		signal  syscall.Signal
		silence time.Duration
		want    string
	}{
		"killed": {syscall.SIGKILL, time.Minute, "killed"},
		"frozen": {syscall.SIGSTOP, 2 * time.Second, "nothing arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := server(t)
			f := open(t, 1, fleet.Options{Silence: test.silence})
			s := testkit.Value(f.OpenSession(context.Background(), load.Plan{URL: url, Connections: 1}, nil))(t)
			time.AfterFunc(100*time.Millisecond, func() { _ = f.cmds[0].Process.Signal(test.signal) })
			_, err := s.Slice(context.Background(), time.Minute, true)
			testkit.As[*fleet.Error](t, err, test.want)
			if r := s.Close(); r.Requests != 0 || r.Errors.First == "" {
				t.Errorf("%+v", r)
			}
		})
	}
}
