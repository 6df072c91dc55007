package trial_test

import (
	"context"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/testkit"
)

// Numbers of additional calls that the chatty contender makes for a request.
const (
	extraGetppid = 7
	extraRead    = 3
)

// chatter makes these additional calls.
func chatter() {
	for range extraGetppid {
		_ = syscall.Getppid()
	}
	for range extraRead {
		_, _ = syscall.Pread(-1, nil, 0)
	}
}

// attribute counts the calls of a contender. It skips the test if the kernel does
// not let this process count. Otherwise no count may be missing.
func attribute(t *testing.T, b *trial.Bench, c *contender.Contender) *sample.Record {
	t.Helper()
	counts, err := proc.CountCalls()
	if err != nil {
		t.Skipf("the kernel does not let this process count: %v", err)
	}
	_ = counts.Close()
	r, err := b.Attribute(context.Background(), 1, condition(1), trial.Member{Name: "x", Contender: c})
	if err != nil || r.Failure != "" || r.Timed() {
		t.Fatalf("%s, timed %v, %v", r.Failure, r.Timed(), err)
	}
	if why := strings.Join(r.Attribution.Missing, "; "); why != "" {
		t.Fatal(why)
	}
	return &r
}

// near reports whether a count per request is near enough. On a busy machine this process may have
// to wait between a look and the measured time.
func near(got, want float64) bool { return math.Abs(got-want) <= 0.25*math.Max(1, want) }

// same reports whether two counts are nearly equal. They are read one after the other, and on a
// busy machine a few more are counted in between.
func same(got, want float64) bool { return math.Abs(got-want) <= 0.1*want }

// System calls of a contender are counted by name, in a part of the time of other trials.
func TestCallsPerRequestAreCounted(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	b := bench(t)
	b.Measure = time.Hour
	plain, chatty := attribute(t, b, actor("server")), attribute(t, b, actor("chatty"))
	per := func(r *sample.Record, name string) float64 {
		return float64(r.Attribution.Calls[contender.RoleApplication][name]) / float64(r.Load.Requests)
	}
	for name, want := range map[string]float64{"getppid": extraGetppid, "pread64": extraRead} {
		// A response is one write.
		if got := per(chatty, name) / per(chatty, "write"); !same(got, want) || per(plain, name) != 0 {
			t.Errorf("%s: %v a response, want %v; of the plain one %v", name, got, want, per(plain, name))
		}
	}
	if got := per(plain, "write"); !near(got, 1) {
		t.Errorf("%v writes a request, want 1", got)
	}
	if plain.Timed() || plain.Load.Seconds > 60 {
		t.Errorf("it counts as a timed trial, of %v s", plain.Load.Seconds)
	}
}

// Without the right to count, the record names what is missing, and the trial is carried out.
func TestAttributionWithoutRightsNamesWhatIsMissing(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	if os.Geteuid() == 0 {
		c := testkit.Command(t, "/proc/self/exe", "-test.run=^TestAttributionWithoutRightsNamesWhatIsMissing$",
			"-test.v")
		// The folders of tests are root's.
		c.Dir, c.Env = "/", []string{"TMPDIR=/tmp", testkit.RunEnv + "=" + os.Getenv(testkit.RunEnv)}
		c.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		if out, err := c.CombinedOutput(); err != nil ||
			!strings.Contains(string(out), "--- PASS: TestAttributionWithoutRightsNamesWhatIsMissing") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	c := actor("server")
	c.Bin = "/proc/self/exe"
	r, err := bench(t).Attribute(context.Background(), 1, condition(1), trial.Member{Name: "x", Contender: c})
	if err != nil || r.Failure != "" {
		t.Fatal(r.Failure, err)
	}
	a := r.Attribution
	if counts, err := proc.CountCalls(); err == nil {
		_ = counts.Close()
		t.Skip("unprivileged processes may count here")
	}
	if why := strings.Join(a.Missing, "; "); a.Calls != nil ||
		!strings.Contains(why, "system calls were not counted: ") {
		t.Errorf("counted %v, missing: %s", a.Calls, why)
	}
	if r.Load.Requests == 0 {
		t.Error("no request was measured")
	}
}
