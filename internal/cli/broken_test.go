package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
)

// brokenTests lists the faults of a contender and the report's text about each.
func brokenTests() []brokenTest {
	return []brokenTest{
		{"well", nil, true},
		{"lies", []string{`LEFT OUT: lies: responds with body "goodbye", not "hello"`}, false},
		{"lacks", []string{`LEFT OUT: lacks: its response differs from the control's: field X-Kind: none, where the control has "greeting"`}, false},
		{"closes", []string{`LEFT OUT: closes: its response differs from the control's: keep-alive: its connection is closed after a response, where the control's is kept`}, false},
		{"crashes", []string{`LEFT OUT: crashes: it failed 2 times; the last failure: its application ended by itself (exit status 9)`, "out of luck"}, false},
		{"late", []string{`LEFT OUT: late: no response after 300ms`}, false},
		{"forks", []string{`LEFT OUT: forks: its application ended by itself (exit status 0), and left "broken"`, `an application must stay in the foreground`}, false},
		// Correct when requested alone, and sometimes wrong under load.
		{"garbles", []string{`LEFT OUT: garbles: it failed 2 times; the last failure: it responds differently under load: `, `body of 5 bytes differs from the expected 5 bytes`}, false},
		{"falters", []string{`LEFT OUT: falters: it failed 2 times; the last failure: it responds differently under load: `, `unexpected status 500`}, false},
		// These can still be measured.
		{"holds", []string{`holds leaves processes behind on SIGTERM: "broken" (process`,
			"They are killed, too."}, true},
		{"deaf", []string{`deaf does not end on SIGTERM. It is killed each time.`}, true},
	}
}

type brokenTest struct {
	name    string
	reports []string // in the report, which ignores how lines are broken
	weighed bool     // its row is whole
}

const (
	brokenExperiment = `title: broken
request: {method: GET, path: /, host: a.b}
expect: {status: 200, body: hello}
control: control
ways: [%s]
quick: {blocks: 2, measure: 200ms, cores: [1], connections: [4]}
full: {blocks: 2, measure: 200ms, cores: [1], connections: [4]}
`
	brokenContender = `title: %[1]s
about: a server
run: "broken %[1]s {port} %[2]s"
protocol: http
ready: {within: %[3]s}
`
)

// The report names the fault of a broken contender and measures the others as if it did not exist.
// No process of it remains.
func TestBrokenContendersAreNamedAndLeftOut(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	journal := filepath.Join(root, "started")
	write := func(text string, path ...string) {
		file := filepath.Join(append([]string{root}, path...)...)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"control"}
	for _, test := range brokenTests() {
		names = append(names, test.name)
	}
	for _, name := range names {
		within := "20s"
		if name == "late" {
			within = "300ms"
		}
		write(fmt.Sprintf(brokenContender, name, journal, within), "contenders", name, "contender.yaml")
	}
	write(fmt.Sprintf(brokenExperiment, strings.Join(names, ", ")), "experiments", "broken", "experiment.yaml")

	out := filepath.Join(root, "out")
	c := testkit.Command(t, filepath.Join(usersTare(t), "tare"), "weigh", "broken", "--details", "--out", out)
	c.Dir = root
	var text, complaint bytes.Buffer
	c.Stdout, c.Stderr = &text, &complaint
	if err := c.Run(); c.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, want exit code 1\n%s", err, complaint.String())
	}
	if want := "the comparison or its results are incomplete; see above"; !strings.Contains(complaint.String(), want) {
		t.Errorf("the error is %q, want %q", complaint.String(), want)
	}
	checkBroken(t, out, text.String())
	checkNothingLeft(t, journal, len(names))
}

// checkBroken checks the text about each fault, on the terminal and on the page, and the rows.
func checkBroken(t *testing.T, out, text string) {
	run, err := sample.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(out, report.PageFile))
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.Join(strings.Fields(text), " ")
	whole := map[string]bool{"control": true, "twin": true}
	absent := make(map[string]bool)
	for _, test := range brokenTests() {
		whole[test.name], absent[test.name] = test.weighed, !test.weighed
		for _, want := range test.reports {
			if !strings.Contains(joined, want) {
				t.Errorf("%s: the report does not say: %s", test.name, want)
			}
		}
	}
	for _, e := range run.Entrants {
		if (e.Absent != "") != absent[e.Name] {
			t.Errorf("%s is left out: %q", e.Name, e.Absent)
		}
		if first, _, _ := strings.Cut(e.Absent, " "); !strings.Contains(string(page), e.Title) ||
			!strings.Contains(string(page), first) {
			t.Errorf("the page reports nothing of %s", e.Name)
		}
	}
	rows := analyze.Analyze(run).Tables[0].Rows
	for _, row := range rows {
		if whole[row.Name] != (row.Trials == run.Blocks && len(row.Failures) == 0) {
			t.Errorf("%s: %d of %d trials succeeded, failures %q", row.Name, row.Trials, run.Blocks, row.Failures)
		}
		if whole[row.Name] && (row.WeightUs.Mid <= 0 || row.PerSecond.Mid <= 0) {
			t.Errorf("%s weighs %v µs", row.Name, row.WeightUs.Mid)
		}
		delete(whole, row.Name)
	}
	for name, is := range whole {
		if is {
			t.Errorf("%s has no row", name)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// checkNothingLeft checks that none of the recorded processes is alive and that nothing listens on
// their addresses.
func checkNothingLeft(t *testing.T, journal string, fewest int) {
	b, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	started := 0
	for line := range strings.Lines(string(b)) {
		var pid, port int
		if _, err := fmt.Sscan(line, &pid, &port); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		started++
		if words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil &&
			bytes.Contains(words, []byte(journal)) {
			t.Errorf("process %d is left: %q", pid, words)
		}
		holders, err := proc.TCPListeners(port)
		for _, h := range holders {
			words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", h.PID))
			if bytes.Contains(words, []byte(journal)) {
				t.Errorf("process %d listens on port %d: %q", h.PID, port, words)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	if started < fewest {
		t.Errorf("%d processes were started: %d contenders were to be", started, fewest)
	}
}

// brokenServer is the contenders' program: it serves "hello" with a given fault and records its
// start.
func brokenServer() {
	fault, port, journal := os.Args[1], os.Args[2], os.Args[3]
	note := func() {
		f, err := os.OpenFile(journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, os.Getpid(), port)
		}
		if err != nil {
			panic(err)
		}
	}
	note()
	switch fault {
	case "keeps", "late": // the former has the port from its parent
		time.Sleep(time.Minute)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "forks":
		inBackground("broken", "well", port, journal)
		syscall.Exit(0) // at once: os.Exit has the race detector wait for a second
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		panic(err)
	}
	if fault == "holds" {
		holdPort(l, port, journal)
	}
	panic(http.Serve(l, brokenHandler(fault)))
}

// holdPort starts a child in its own session that shares the listener and outlives this process.
func holdPort(l net.Listener, port, journal string) {
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		panic(err)
	}
	c := exec.Command("broken", "keeps", port, journal)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.ExtraFiles = []*os.File{f}
	if err := c.Start(); err != nil {
		panic(err)
	}
}

// aloneRequests is the number of correct responses before the first fault: more than the lab
// requests one at a time.
const aloneRequests = 20

func brokenHandler(fault string) http.Handler {
	var requested atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := "hello"
		w.Header().Set("X-Kind", "greeting")
		n := requested.Add(1)
		loaded := n > aloneRequests
		switch {
		case fault == "lies":
			body = "goodbye"
		case fault == "lacks":
			w.Header().Del("X-Kind")
		case fault == "closes":
			hangUp(w)
			return
		case fault == "crashes" && loaded:
			fmt.Println("out of luck")
			syscall.Exit(9)
		case fault == "garbles" && loaded && n%10 == 0:
			body = "hallo"
		case fault == "falters" && loaded && n%10 == 0:
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, body)
	})
}

// hangUp responds correctly and closes the connection without announcing it.
func hangUp(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	date := time.Now().UTC().Format(http.TimeFormat)
	body := "hello"
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Kind: greeting\r\nDate: %s\r\nContent-Length: %s\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n%s",
		date, strconv.Itoa(len(body)), body)
}
