package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/upgrades"
	"github.com/tarehq/tare/upgrade"
)

// The test makes fewUpgrades under load; with TARE_SLOW it makes manyUpgrades.
const (
	fewUpgrades  = 8
	manyUpgrades = 1000
)

// No request is lost while processes replace each other: on kept and new connections, over TCP,
// unix sockets, TLS, HTTP/2 and HTTP/3, with FastCGI and websockets. Each request is logged once.
// Some new processes fail at their start, and others are killed half way.
func TestUpgradesLoseNoRequest(t *testing.T) {
	n := fewUpgrades
	if os.Getenv("TARE_SLOW") != "" {
		n = manyUpgrades
	}
	s := newSite(t, time.Hour)
	load, websocket := s.load()
	var replaced []int
	for i := range n {
		load.More(50)
		switch i % 8 {
		case 3:
			s.failAtStart()
		case 6:
			s.killHalfWay()
		}
		replaced = append(replaced, s.upgrade())
		if t.Failed() {
			t.Fatalf("after %d upgrades", i)
		}
	}
	load.More(100)
	load.Finish()
	s.end(replaced...)
	canceled := s.canceled.Load()
	t.Logf("%d requests, %d upgrades, %d that failed on purpose; %d requests canceled by quic-go's client",
		load.Requests.Load(), n, s.failed, canceled)
	seen := make(map[string]bool)
	file, err := os.Open(s.Path("access.log"))
	testkit.Must(t, err)
	defer file.Close()
	lines, logged := bufio.NewScanner(file), int64(0)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "/websocket") {
			continue // it has a line for each connection
		}
		if logged++; seen[lines.Text()] {
			t.Fatalf("%s is logged twice", lines.Text())
		}
		seen[lines.Text()] = true
	}
	if want := load.Requests.Load() - websocket.requests.Load(); logged < want || logged > want+canceled {
		t.Errorf("%d log lines of %d requests", logged, want)
	}
}

// A new process that fails changes nothing. The log names the reason.
func TestFailedUpgradesChangeNothing(t *testing.T) {
	for _, c := range []struct {
		name        string
		spoil, mend func(s *site)
		ready       time.Duration
		want        string
	}{
		{"configuration", func(s *site) { s.write("nginx.conf", "events {} http { rubbish; }") },
			func(s *site) { s.write("nginx.conf", upgradable) }, time.Hour, "unknown directive \"rubbish\""},
		{"binary", func(s *site) { s.write("broken", "rubbish"); s.link("broken") }, (*site).install, time.Hour,
			"permission denied"},
		{"error", func(s *site) { s.write("fault", fails) }, func(s *site) { s.write("fault", "") }, time.Hour,
			"exit status 1"},
		{"hang", func(s *site) { s.write("fault", hangs) }, func(s *site) { s.write("fault", "") },
			time.Second, "it was not ready after 1s"},
		{"address", func(s *site) { s.write("nginx.conf", strings.Replace(upgradable, "HOST:8001", "192.0.2.1:1", 1)) },
			func(s *site) { s.write("nginx.conf", upgradable) }, time.Hour, "listen 192.0.2.1:1: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, c.ready)
			load, _ := s.load()
			load.More(50)
			pid := s.PID()
			c.spoil(s)
			s.Signal(pid, syscall.SIGUSR2)
			s.AwaitLog("upgrade: failed, this", 1)
			if log := s.Read("log"); !strings.Contains(log, c.want) {
				t.Errorf("want %q in the log", c.want)
			}
			load.More(50)
			if got := s.PID(); got != pid {
				t.Errorf("process %d serves, want %d", got, pid)
			}
			if _, err := os.Lstat(s.Path("pid.oldbin")); err == nil {
				t.Error("pid.oldbin is left")
			}
			if _, err := os.Lstat(s.Path("socket")); err != nil {
				t.Error(err)
			}
			c.mend(s)
			var replaced []int
			if c.name != "hang" { // a good process may need more time than that
				replaced = append(replaced, s.upgrade())
				load.More(50)
			}
			load.Finish()
			s.end(replaced...)
		})
	}
}

// link replaces the server's program by a link.
func (s *site) link(target string) {
	s.Helper()
	if err := errors.Join(os.Symlink(s.Path(target), s.Path("program.new")),
		os.Rename(s.Path("program.new"), s.Path("program"))); err != nil {
		s.Fatal(err)
	}
}

// A server that was started as root is replaced by processes of its user. What only root may open
// stops the new process, and the log names it.
func TestUpgradeKeepsTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	s := newSite(t, time.Hour, "TARE_TEST_USER=nobody")
	load, _ := s.load()
	load.More(50)
	old := s.upgrade()
	load.More(50)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil || !strings.Contains(string(status), "\nUid:\t65534\t65534\t65534\t65534\n") ||
		!strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Errorf("%s, %v", status, err)
	}
	for i, c := range []struct {
		name       string
		mode, good os.FileMode
		want       string
	}{
		{"cert.pem", 0o600, 0o666, "cert.pem: permission denied"},
		{"nginx.conf", 0o600, 0o666, "nginx.conf: permission denied"},
		{"program", 0o700, 0o755, "program: permission denied"},
		{"", 0o755, 0o777, "permission denied (the user that serves must be able to replace the file)"},
	} {
		testkit.Must(t, os.Chmod(s.Path(c.name), c.mode))
		s.Signal(s.PID(), syscall.SIGUSR2)
		s.AwaitLog("upgrade: failed, this", i+1)
		if !strings.Contains(s.Read("log"), c.want) {
			t.Errorf("want %q in the log", c.want)
		}
		testkit.Must(t, os.Chmod(s.Path(c.name), c.good))
		load.More(50)
	}
	next := s.upgrade()
	load.More(50)
	load.Finish()
	s.end(old, next)
}

// failAtStart starts a new process that exits before it is ready.
func (s *site) failAtStart() {
	s.Helper()
	s.failed++
	s.write("fault", exits)
	s.Signal(s.PID(), syscall.SIGUSR2)
	s.AwaitLog("upgrade: failed, this", s.failed)
	s.write("fault", "")
}

// killHalfWay kills a new process that has opened everything and is not ready yet.
func (s *site) killHalfWay() {
	s.Helper()
	s.failed++
	s.write("fault", hangs)
	s.Signal(s.PID(), syscall.SIGUSR2)
	s.Signal(s.Number("hangs"), syscall.SIGKILL)
	s.AwaitLog("upgrade: failed, this", s.failed)
	s.write("fault", "")
	testkit.Must(s, os.Remove(s.Path("hangs")))
}

// While the old process finishes a download, a file holds its ID, as with nginx. SIGWINCH and
// SIGQUIT change nothing then.
func TestOldProcessFinishesDownload(t *testing.T) {
	s := newSite(t, time.Hour)
	pid := s.PID()
	c, err := net.Dial("tcp", s.host+":8000")
	testkit.Must(t, err)
	defer c.Close()
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: host\r\nContent-Length: 4\r\n\r\nab")
	idle := &upgrades.RawClient{Network: "tcp", Address: s.host + ":8000"}
	defer idle.Close()
	if _, err := idle.Request("/", "x"); err != nil {
		t.Fatal(err)
	}
	s.upgrade()
	if got := s.Number("pid.oldbin"); got != pid {
		t.Errorf("pid.oldbin holds %d, want %d", got, pid)
	}
	if _, err := idle.Request("/", "x"); err != nil || idle.Kept {
		t.Errorf("an idle connection: %v; kept %v, want one response and its end", err, idle.Kept)
	}
	s.Signal(pid, syscall.SIGWINCH) // which terminals send; nginx ignores it without a master process
	s.Signal(s.PID(), syscall.SIGWINCH)
	s.Signal(pid, syscall.SIGQUIT)
	fmt.Fprint(c, "cd")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	testkit.Must(t, err)
	if _, err := upgrades.CheckEcho(resp, "abcd"); err != nil || !resp.Close {
		t.Errorf("%v, Connection: close %v", err, resp.Close)
	}
	s.end(pid)
}

// worker_shutdown_timeout ends what the old process has not finished.
func TestShutdownTimeoutEndsOldProcess(t *testing.T) {
	s := newSite(t, time.Hour)
	s.write("nginx.conf", strings.Replace(upgradable, "10m", "200ms", 1))
	pid := s.PID()
	s.Signal(pid, syscall.SIGHUP)
	s.AwaitLog("new configuration active", 1)
	w := &tunnel{address: s.host + ":8000"}
	defer w.Close()
	if _, err := w.Request("/websocket", "x"); err != nil {
		t.Fatal(err)
	}
	s.upgrade()
	if b, err := io.ReadAll(w.in); len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
	if code := s.Wait(pid); code != 1 {
		t.Errorf("exit code %d, want 1 because a connection was aborted", code)
	}
	s.end()
}

// A process that is confined to a folder cannot start another one, and says so.
func TestUpgradeOfConfinedProcessIsRejected(t *testing.T) {
	s := newSite(t, time.Hour, "TARE_TEST_CONFINED=1")
	pid := s.PID()
	if !strings.Contains(s.Read("log"), "sandboxed by Landlock") {
		t.Skip("this kernel has no Landlock")
	}
	s.Signal(pid, syscall.SIGUSR2)
	s.AwaitLog("upgrade: failed, this", 1)
	const want = "upgrade: a process that is confined to a folder cannot start another one: restart it"
	if !strings.Contains(s.Read("log"), want) {
		t.Error("the log does not name the reason")
	}
	s.Signal(pid, syscall.SIGTERM)
	if code := s.Wait(pid); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Upgrade is an error where it is impossible.
func TestImpossibleUpgradesAreReported(t *testing.T) {
	p := start(t, "return 200 first;")
	if err := p.server.Upgrade(t.Context()); err == nil || !strings.Contains(err.Error(), "requires Options.Upgrade") {
		t.Errorf("got %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	options := server.Options{Stdout: io.Discard, Stderr: io.Discard, NoSignals: true,
		Listeners: []net.Listener{l}, Upgrade: &upgrade.Options{}}
	if err := server.Run(t.Context(), server.File{Path: p.conf}, options); err == nil ||
		!strings.Contains(err.Error(), "mutually exclusive") {
		t.Errorf("got %v", err)
	}
}
