package cli_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tarehq/tare/internal/cli"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

func TestMain(m *testing.M) {
	testscript.Main(tests{testkit.Tests{M: m}}, map[string]func(){
		"tare":       func() { os.Exit(cli.Main()) },
		"hello":      hello,
		"hellounix":  helloUnix,
		"hellofcgi":  helloFCGI,
		"helloqueue": helloQueue,
		"refusefcgi": refuseFCGI,
		"statuses":   statuses,
		"silent":     silent,
		"hellotls":   helloTLS,
		"server":     ownServer,
		"apart":      apart,
		"signalled":  signalled,
		"machine":    machineProgram,
	})
}

// tests are the tests of the package, and the command that they share.
type tests struct{ guarded testkit.Tests }

// Run runs the tests and returns the exit code.
func (t tests) Run() int {
	code := t.guarded.Run()
	if users.dir != "" {
		os.RemoveAll(users.dir)
	}
	return code
}

// hello serves "hello" with net/http and writes its URL to a file. It writes another file at the
// hundredth request of each load.
func hello() {
	busy := busyAfter(100)
	serveHTTP("/", func(w http.ResponseWriter, r *http.Request) {
		busy()
		greet(w, r)
	})
}

// busyAfter returns a function that writes the file of the second argument after as many calls. A
// script removes the file before its next load, and the count begins anew.
func busyAfter(requests int64) func() {
	var n atomic.Int64
	return func() {
		if len(os.Args) < 3 {
			return
		}
		if _, err := os.Stat(os.Args[2]); err == nil {
			n.Store(0)
		} else if n.Add(1) == requests {
			_ = os.WriteFile(os.Args[2], []byte("requests"), 0o600)
		}
	}
}

func TestScripts(t *testing.T) {
	testkit.Long(t, "it runs programs")
	cache := goEnv(t, "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS")
	withoutRace := usersTare(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			boundScript(t, e)
			for name, value := range cache {
				e.Setenv(name, value)
			}
			e.Setenv("ROOT", programs.Root(t))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(users.dir, "cache")) // nginx is unpacked once
			name := strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")
			if !slices.Contains(scriptsWithRace(), name) {
				e.Setenv("PATH", withoutRace+string(os.PathListSeparator)+e.Getenv("PATH"))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"awaitfile": awaitFile,
			"setfrom":   setFrom,
			"running":   running,
			"smalldisk": smallDisk,
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "nginx":
				_, err := os.Stat("/usr/sbin/nginx")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
	})
}

// scriptWithin limits how long a script may take, even on a busy machine.
const scriptWithin = 8 * time.Minute

// boundScript kills the programs of a hanging script, which then fails in the line that ran them.
func boundScript(t *testing.T, e *testscript.Env) {
	e.Setenv(testkit.RunEnv, os.Getenv(testkit.RunEnv))
	hangs := time.AfterFunc(scriptWithin, func() {
		t.Logf("%s: has run for %v: its programs are killed", filepath.Base(e.WorkDir), scriptWithin)
		testkit.KillMarked("WORK=" + e.WorkDir + "\x00")
	})
	e.Defer(func() { hangs.Stop() })
}

// users is the command without the race detector, which makes the start and the statistics of a run
// take five times as long. All tests share it.
var users struct {
	build sync.Once
	dir   string
	err   error
}

// usersTare returns the folder of the command without the race detector.
func usersTare(t *testing.T) (dir string) {
	t.Helper()
	users.build.Do(func() {
		if users.dir, users.err = os.MkdirTemp("", "tare-cli-test-"); users.err != nil {
			return
		}
		build := testkit.Command(t, "go", "build", "-pgo=off", "-ldflags=-s", "-o", users.dir+"/tare", "./cmd/tare")
		build.Dir = programs.Root(t)
		if out, err := build.CombinedOutput(); err != nil {
			users.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if users.err != nil {
		t.Fatal(users.err)
	}
	return users.dir
}

// scriptsWithRace are the scripts that run the command with the race detector: one of each
// subcommand that has concurrent parts. The other scripts are about flags, texts and files, or
// measure.
func scriptsWithRace() []string {
	return []string{"find-max", "load", "load-fastcgi", "load-many", "load-outputs", "serve", "serve-front",
		"weigh-full-disk", "wrk"}
}

func goEnv(t *testing.T, names ...string) map[string]string {
	t.Helper()
	out := testkit.Value(testkit.Command(t, "go", append([]string{"env"}, names...)...).Output())(t)
	values := make(map[string]string)
	for i, line := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		values[names[i]] = line
	}
	return values
}

// awaitFile FILE [TEXT] waits until a file is not empty and contains a text.
func awaitFile(ts *testscript.TestScript, neg bool, args []string) {
	name, text := ts.MkAbs(args[0]), strings.Join(args[1:], "")
	for deadline := time.Now().Add(patience); !fileHolds(name, text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("%s has not come", args[0])
		}
	}
}

// setFrom NAME FILE sets a variable to a file's contents.
func setFrom(ts *testscript.TestScript, neg bool, args []string) {
	ts.Setenv(args[0], ts.ReadFile(args[1]))
}

// running TEXT reports whether a process is alive whose command line contains a text. It gives
// exiting processes a moment.
func running(ts *testscript.TestScript, neg bool, args []string) {
	found := true
	for deadline := time.Now().Add(patience); found && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		found = false
		for _, f := range files {
			b, _ := os.ReadFile(f)
			found = found || strings.Contains(strings.ReplaceAll(string(b), "\x00", " "), args[0])
		}
		if found && !neg {
			return
		}
	}
	if found == neg {
		ts.Fatalf("running %q: %v", args[0], found)
	}
}

// smallDisk DIR KILOBYTES mounts a disk of that size. It requires privileges.
func smallDisk(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+args[1]+"k"))
	ts.Defer(func() { ts.Check(syscall.Unmount(dir, syscall.MNT_DETACH)) })
}

// signalled is "signalled SIGNAL CODE UNTIL COMMAND...". It starts a command with default signal
// actions, waits, sends the signal, and fails unless the command exits with the code. All waits are
// limited.
//
// UNTIL is a duration, or a file pattern, a colon, and a text that the file then contains;
// variables in it are expanded. CODE is a number, or "killed".
func signalled() {
	if err := startAndSignal(os.Args[1], os.Args[2], os.ExpandEnv(os.Args[3]), os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "signalled:", err)
		os.Exit(1)
	}
}

func startAndSignal(name, code, until string, words []string) error {
	sig, ok := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM,
		"KILL": syscall.SIGKILL}[name]
	if !ok {
		return fmt.Errorf("unknown signal %q", name)
	}
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		signal.Notify(make(chan os.Signal, 1), s) // a signal that is handled here has its default action in the command
	}
	c := exec.Command(words[0], words[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // its state is looked at
		close(ended)
	}()
	defer func() {
		_ = c.Process.Kill()
		<-ended
	}()
	if err := awaitUntil(until, ended); err != nil {
		return err
	}
	if err := c.Process.Signal(sig); err != nil {
		return fmt.Errorf("SIG%s: %w", name, err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		return fmt.Errorf("%q has not ended %v after SIG%s", words, patience, name)
	}
	got := strconv.Itoa(c.ProcessState.ExitCode())
	if c.ProcessState.ExitCode() < 0 {
		got = "killed"
	}
	if got != code {
		return fmt.Errorf("%q ended with %s, want %s", words, got, code)
	}
	return nil
}

// awaitUntil waits for UNTIL while the command runs.
func awaitUntil(until string, ended <-chan struct{}) error {
	pattern, text, isFile := strings.Cut(until, ":")
	bound, holds := patience, func() bool { return fileHolds(pattern, text) }
	if !isFile {
		d, err := time.ParseDuration(until)
		if err != nil {
			return err
		}
		bound, holds = d, func() bool { return false }
	}
	for deadline := time.Now().Add(bound); !holds(); {
		select {
		case <-ended:
			return fmt.Errorf("the command ended before %s", until)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			if isFile {
				return fmt.Errorf("waited %v for %q in %s", bound, text, pattern)
			}
			return nil
		}
	}
	return nil
}

// fileHolds reports whether a file that matches a pattern exists, is not empty and contains a text.
func fileHolds(pattern, text string) bool {
	names, _ := filepath.Glob(pattern)
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && len(b) > 0 && bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}
