package server_test

import (
	"bufio"
	"crypto/tls"
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

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

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
	if testkit.Slow() {
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
	file := testkit.Value(os.Open(s.Path("access.log")))(t)
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
	want := load.Requests.Load() - websocket.requests.Load()
	testkit.Between(t, logged, want, want+canceled, "lines in the log")
}

// A new process that fails changes nothing. The log names the reason.
func TestFailedUpgradesChangeNothing(t *testing.T) {
	s := newSite(t, time.Hour)
	load, _ := s.load()
	load.More(50)
	pid := s.PID()
	for name, c := range map[string]struct {
		spoil, mend func()
		want        string
	}{
		"configuration": {func() { s.write("nginx.conf", "events {} http { rubbish; }") },
			func() { s.write("nginx.conf", upgradable) }, "unknown directive \"rubbish\""},
		"binary": {func() { s.write("broken", "rubbish"); s.link("broken") }, s.install, "permission denied"},
		"error":  {func() { s.write("fault", fails) }, func() { s.write("fault", "") }, "exit status 1"},
		"HTTP/3": {func() { s.write("fault", lacks) }, func() { s.write("fault", "") }, "too many open files"},
		"address": {func() { s.write("nginx.conf", strings.Replace(upgradable, "HOST:8001", "192.0.2.1:1", 1)) },
			func() { s.write("nginx.conf", upgradable) }, "listen 192.0.2.1:1: "},
		// which is an error before the new process takes over
		"PID file": {func() { testkit.Must(t, os.MkdirAll(s.Path("pid.new/file"), 0o777)) },
			func() { testkit.Must(t, os.RemoveAll(s.Path("pid.new"))) }, "pid.new"},
	} {
		c.spoil()
		s.failUpgrade(c.want)
		load.More(50)
		testkit.Equal(t, s.PID(), pid, name, "the process that serves")
		testkit.Fails(os.Lstat(s.Path("pid.oldbin")))(t, "no such file", name)
		testkit.Value(os.Lstat(s.Path("socket")))(t)
		c.mend()
	}
	old := s.upgrade()
	load.More(50)
	load.Finish()
	s.end(old)
}

// A new process that hangs is ended.
func TestHangingUpgradeEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Second)
	pid := s.PID()
	s.write("fault", hangs)
	s.failUpgrade("it was not ready after 1s")
	testkit.Equal(t, s.PID(), pid, "the process that serves")
	s.end()
}

// link replaces the server's program by a link.
func (s *site) link(target string) {
	s.Helper()
	testkit.Must(s, errors.Join(os.Symlink(s.Path(target), s.Path("program.new")),
		os.Rename(s.Path("program.new"), s.Path("program"))))
}

// A server that was started as root is replaced by processes of its user. What only root may open
// stops the new process, and the log names it.
func TestUpgradeKeepsTheUser(t *testing.T) {
	testkit.NeedRoot(t)
	s := newSite(t, time.Hour, "TARE_TEST_USER=nobody")
	load, _ := s.load()
	load.More(50)
	old := s.upgrade()
	load.More(50)
	status := string(testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID())))(t))
	testkit.Contains(t, status, "\nUid:\t65534\t65534\t65534\t65534\n")
	testkit.Contains(t, status, "NoNewPrivs:\t1")
	for _, c := range []struct {
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
		s.failUpgrade(c.want)
		testkit.Must(t, os.Chmod(s.Path(c.name), c.good))
		load.More(50)
	}
	next := s.upgrade()
	load.More(50)
	load.Finish()
	s.end(old, next)
}

// failUpgrade requests an upgrade that fails, and a reason in the log.
func (s *site) failUpgrade(want string) {
	s.Helper()
	s.failed++
	s.Signal(s.PID(), syscall.SIGUSR2)
	s.AwaitLog("upgrade: failed, this", s.failed)
	testkit.Contains(s, s.Read("log"), want, "the log")
}

// failAtStart starts a new process that exits before it is ready.
func (s *site) failAtStart() {
	s.Helper()
	s.write("fault", exits)
	s.failUpgrade("")
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
	t.Parallel()
	s := newSite(t, time.Hour)
	pid := s.PID()
	c := dial(t, "tcp", s.host+":8000", "POST / HTTP/1.1\r\nHost: host\r\nContent-Length: 4\r\n\r\nab")
	idle := &upgrades.RawClient{Network: "tcp", Address: s.host + ":8000"}
	defer idle.Close()
	testkit.Value(idle.Request("/", "x"))(t)
	s.upgrade()
	testkit.Equal(t, s.Number("pid.oldbin"), pid, "pid.oldbin")
	s.AwaitLog("upgrade: finishing the requests", 1)
	if _, err := idle.Request("/", "x"); err != nil || idle.Kept {
		t.Errorf("an idle connection: %v; kept %v, want one response and its end", err, idle.Kept)
	}
	s.Signal(pid, syscall.SIGWINCH) // which terminals send; nginx ignores it without a master process
	s.Signal(s.PID(), syscall.SIGWINCH)
	s.Signal(pid, syscall.SIGQUIT)
	fmt.Fprint(c, "cd")
	resp := testkit.Value(http.ReadResponse(bufio.NewReader(c), nil))(t)
	if _, err := upgrades.CheckEcho(resp, "abcd"); err != nil || !resp.Close {
		t.Errorf("%v, Connection: close %v", err, resp.Close)
	}
	s.end(pid)
}

// worker_shutdown_timeout ends what the old process has not finished.
func TestShutdownTimeoutEndsOldProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Hour)
	s.write("nginx.conf", strings.Replace(upgradable, "10m", "200ms", 1))
	pid := s.PID()
	s.Signal(pid, syscall.SIGHUP)
	s.AwaitLog("new configuration active", 1)
	w := &tunnel{address: s.host + ":8000"}
	defer w.Close()
	testkit.Value(w.Request("/websocket", "x"))(t)
	s.upgrade()
	if b, err := io.ReadAll(w.in); len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
	testkit.Equal(t, s.Wait(pid), 1, "exit code, because a connection was aborted")
	s.end()
}

// A process that is confined to a folder cannot start another one, and says so.
func TestUpgradeOfConfinedProcessIsRejected(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Hour, "TARE_TEST_CONFINED=1")
	pid := s.PID()
	if !strings.Contains(s.Read("log"), "sandboxed by Landlock") {
		t.Skip("this kernel has no Landlock")
	}
	s.failUpgrade("upgrade: a process that is confined to a folder cannot start another one: restart it")
	s.Signal(pid, syscall.SIGTERM)
	testkit.Equal(t, s.Wait(pid), 0, "exit code")
}

// Upgrade is an error where it is impossible.
func TestImpossibleUpgradesAreReported(t *testing.T) {
	p := start(t, "return 200 first;")
	testkit.Error(t, p.server.Upgrade(t.Context()), "requires Options.Upgrade")
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	options := server.Options{Stdout: io.Discard, Stderr: io.Discard, NoSignals: true,
		Listeners: []net.Listener{l}, Upgrade: &upgrade.Options{}}
	testkit.Error(t, server.Run(t.Context(), server.File{Path: p.conf}, options), "mutually exclusive")
}

// withoutSocket is upgradable without its unix socket.
func withoutSocket() string { return strings.Replace(upgradable, " listen unix:DIR/socket;", "", 1) }

// A unix socket that the new configuration does not have is removed by the new process, and stays
// if that process fails.
func TestDroppedUnixSocketIsRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Hour)
	s.write("nginx.conf", withoutSocket())
	s.failAtStart()
	dial(t, "unix", s.Path("socket"), "") // after a failed upgrade
	old := s.upgrade()
	testkit.WaitFor(s, "the socket's file to be removed", func() bool {
		_, err := os.Lstat(s.Path("socket"))
		return os.IsNotExist(err)
	})
	s.end(old)
}

// largeByHTTP3 starts the download of a large file. The client receives no more than is read.
func (s *site) largeByHTTP3() (body io.Reader) {
	s.Helper()
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		QUICConfig: &quic.Config{InitialStreamReceiveWindow: 10 << 10, MaxStreamReceiveWindow: 10 << 10}}
	s.Cleanup(func() { transport.Close() })
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "https://"+s.host+":8443/large", nil)
	testkit.Must(s, err)
	resp := testkit.Value(transport.RoundTrip(req))(s)
	s.Cleanup(func() { resp.Body.Close() })
	return resp.Body
}

// neverReading starts the download of a large file by a client that never reads its body.
func (s *site) neverReading(protocol string) {
	s.Helper()
	if protocol == "HTTP/3" {
		s.largeByHTTP3()
		return
	}
	c := dial(s, "tcp", s.host+":8000", "GET /large HTTP/1.1\r\nHost: host\r\n\r\n")
	testkit.Value(io.ReadFull(c, make([]byte, 1)))(s)
}

// A client that never reads holds up the end of an old process no longer than send_timeout.
func TestOldProcessEndsWithClientThatNeverReads(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for a timeout")
	for _, protocol := range []string{"HTTP/1.1", "HTTP/3"} {
		t.Run(strings.ReplaceAll(protocol, "/", ""), func(t *testing.T) {
			t.Parallel()
			s := newSiteWith(t, strings.Replace(upgradable, "location / {",
				"send_timeout 1s; location /large { alias DIR/large; } location / {", 1), time.Hour)
			s.write("large", "")
			testkit.Must(t, os.Truncate(s.Path("large"), 256<<20))
			s.neverReading(protocol)
			old := s.upgrade()
			testkit.Equal(t, s.Wait(old), 0, "exit code")
			s.end()
		})
	}
}

// withLarge is upgradable with a large file.
func withLarge() string {
	return strings.Replace(upgradable, "location / {", "location /large { alias DIR/large; } location / {", 1)
}

// without is a configuration without HTTP/3.
func without(config string) string { return strings.Replace(config, "listen HOST:8443 quic;", "", 1) }

// largeBytes is the size of that file.
const largeBytes = 1 << 20

// newLargeSite is newSite with a large file.
func newLargeSite(t *testing.T) *site {
	t.Helper()
	s := newSiteWith(t, withLarge(), time.Hour)
	s.write("large", "")
	testkit.Must(t, os.Truncate(s.Path("large"), largeBytes))
	return s
}

// reload reloads a configuration, and waits for a line about the address of HTTP/3 in the log.
func (s *site) reload(config, line string, times int) {
	s.Helper()
	s.write("nginx.conf", config)
	s.Signal(s.PID(), syscall.SIGHUP)
	s.AwaitLog(line+" https://"+s.host+":8443/, by HTTP/3", times)
}

// finish requires the rest of the download.
func (s *site) finish(body io.Reader) {
	s.Helper()
	testkit.Equal(s, testkit.Value(io.Copy(io.Discard, body))(s), largeBytes, "received bytes")
}

// A UDP socket that a reload has removed is passed on: its requests finish in the old process,
// whose packets the new one forwards. If the new configuration has the address again, it is served.
func TestRemovedAddressIsServedAgainByUpgrade(t *testing.T) {
	t.Parallel()
	s := newLargeSite(t)
	first := s.largeByHTTP3()
	s.reload(without(withLarge()), "no longer listening on", 1)
	s.write("nginx.conf", withLarge())
	old := s.upgrade()
	second := s.largeByHTTP3()
	s.finish(second)
	s.finish(first)
	s.end(old)
}

// The same socket can be served again after the upgrade, by a reload or by a further upgrade, also
// if it was the first upgrade that has removed it.
func TestRemovedAddressIsServedAgainAfterUpgrade(t *testing.T) {
	t.Parallel()
	s := newLargeSite(t)
	first := s.largeByHTTP3()
	s.write("nginx.conf", without(withLarge()))
	old := s.upgrade()
	s.reload(withLarge(), "listening on", 2)
	second := s.largeByHTTP3()
	s.reload(without(withLarge()), "no longer listening on", 1)
	older := s.upgrade()
	s.write("nginx.conf", withLarge())
	oldest := s.upgrade()
	s.finish(s.largeByHTTP3())
	s.finish(second)
	s.finish(first)
	s.end(old, older, oldest)
}

// A UDP socket that a reload has removed is closed when the requests of the old process have ended.
func TestRemovedAddressDrainsAfterUpgrade(t *testing.T) {
	t.Parallel()
	s := newLargeSite(t)
	body := s.largeByHTTP3()
	s.reload(without(withLarge()), "no longer listening on", 1)
	old := s.upgrade()
	s.finish(body)
	testkit.WaitFor(s, "the address to be free", func() bool {
		c, err := net.ListenPacket("udp", s.host+":8443")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	s.end(old)
}

// If the new process has another PID file, that of the old one is removed.
func TestUpgradeRemovesOldPIDFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Hour)
	old := s.PID()
	s.write("nginx.conf", strings.Replace(upgradable, "DIR/pid", "DIR/other", 1))
	s.Signal(old, syscall.SIGUSR2)
	s.Wait(old)
	testkit.Equal(t, s.Read("pid"), "", "the old PID file")
	next := s.Number("other")
	s.Signal(next, syscall.SIGTERM)
	testkit.Equal(t, s.Wait(next), 0, "exit code")
}

// A reload while a new process starts is rejected, because that process may have read the old
// configuration. It succeeds later. SIGTERM ends both processes.
func TestReloadDuringUpgradeIsRejected(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Hour)
	s.write("fault", hangs)
	pid := s.PID()
	s.Signal(pid, syscall.SIGUSR2)
	child := s.Number("hangs")
	s.Signal(pid, syscall.SIGHUP)
	s.AwaitLog("reload: failed: an upgrade is in progress", 1)
	s.Signal(pid, syscall.SIGUSR2)
	s.AwaitLog("another upgrade is in progress", 1)
	s.Signal(child, syscall.SIGKILL)
	s.AwaitLog("ended before it was ready", 1)
	s.Signal(pid, syscall.SIGHUP)
	s.AwaitLog("new configuration active", 1)
	testkit.Must(t, os.Remove(s.Path("hangs")))
	s.Signal(pid, syscall.SIGUSR2)
	s.Number("hangs")
	s.end()
	testkit.Equal(t, strings.Count(s.Read("log"), "this process serves on"), 2, "upgrades that failed")
}
