package upgrade_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/upgrades"
)

// The tests make fewUpgrades under load; with TARE_SLOW they make manyUpgrades.
const (
	fewUpgrades  = 10
	manyUpgrades = 1000
)

// No request is lost while processes replace each other: on kept and new connections, over TCP,
// unix sockets, TLS and HTTP/2.
func TestUpgradesLoseNoRequest(t *testing.T) {
	for _, kind := range []string{"tare", "http"} {
		t.Run(kind, func(t *testing.T) {
			n := fewUpgrades
			if os.Getenv("TARE_SLOW") != "" && kind == "tare" {
				n = manyUpgrades
			}
			s := start(t, settings{Kind: kind, Unix: true, TLS: true, Grace: time.Hour})
			load := s.load(2)
			var replaced []int
			for i := range n {
				load.More(20)
				from, _ := s.Upgrade()
				replaced = append(replaced, from)
				if t.Failed() {
					t.Fatalf("after %d upgrades", i)
				}
			}
			load.More(100)
			load.Finish()
			for _, pid := range replaced {
				if kind == "http" { // it does not count its connections, and would wait for all of Grace
					s.Signal(pid, syscall.SIGTERM)
				}
				testkit.Equal(t, s.Wait(pid), 0, "a replaced process: exit code")
			}
			s.End()
			testkit.FailsWith(os.Stat(s.Path("socket")))(t, os.ErrNotExist, "the unix socket's file after the last process")
			t.Logf("%d requests, %d upgrades", load.Requests.Load(), n)
		})
	}
}

// A new process that fails changes nothing. The old one reports why.
func TestFailedUpgradesChangeNothing(t *testing.T) {
	for fault, want := range map[string]string{
		exitsAtOnce: "exit status 7", exitsLater: "exit status 8", hangs: "it was not ready after",
		hasBrokenPIDs: "exit status 1",
	} {
		t.Run(fault, func(t *testing.T) {
			ready := time.Hour
			if fault == hangs {
				ready = 300 * time.Millisecond
			}
			s := start(t, settings{Unix: true, TLS: true, Ready: ready, Grace: time.Hour})
			load := s.load(1)
			pid := s.PID()
			s.Write("fault", fault)
			for n := range 3 {
				load.More(20)
				s.Signal(pid, syscall.SIGUSR2)
				s.AwaitLog("upgrade failed", n+1)
			}
			testkit.Equal(t, strings.Count(s.Read("log"), want), 3, want, "in the log")
			testkit.Equal(t, s.PID(), pid, "the process that serves")
			if fault == hangs { // a good process may need more time than that
				load.Finish()
				s.End()
				return
			}
			s.succeed(load)
		})
	}
}

// succeed upgrades without a fault, and ends.
func (s *site) succeed(load *upgrades.Load) {
	s.Helper()
	testkit.Must(s, os.Remove(s.Path("fault")))
	from, _ := s.Upgrade()
	load.More(20)
	load.Finish()
	testkit.Equal(s, s.Wait(from), 0, "the replaced process: exit code")
	s.End()
}

// A new process whose parent is killed, because it is not ready in time, ends once it is ready.
func TestAbandonedProcessDoesNotServe(t *testing.T) {
	s := start(t, settings{Unix: true, Ready: 500 * time.Millisecond, Grace: time.Hour, Script: true})
	testkit.Must(t, os.WriteFile(s.Path("program"), []byte("#!/bin/sh\n"+os.Args[0]+" \"$@\"\nexit $?\n"), 0o700))
	s.Write("fault", waits)
	old := s.PID()
	s.Signal(old, syscall.SIGUSR2)
	late := s.Number("hangs")
	s.AwaitLog("it was not ready after", 1)
	s.Write("go", "")
	s.Wait(late)
	testkit.Equal(t, s.PID(), old)
	load := s.load(1)
	load.More(20)
	load.Finish()
	testkit.Equal(t, len(testkit.Value(filepath.Glob(s.Path("pid*")))(t)), 1, "PID files")
	s.End()
}

// A new process that is killed half way changes nothing. If the old one is killed then, the new one
// serves alone, and connections that arrive between them wait.
func TestKilledProcessesLoseNoConnection(t *testing.T) {
	s := start(t, settings{Unix: true, Grace: time.Hour})
	load := s.load(1)
	s.Write("fault", hangs)
	old := s.PID()
	s.Signal(old, syscall.SIGUSR2)
	s.Signal(s.Number("hangs"), syscall.SIGKILL)
	s.AwaitLog("signal: killed", 1)
	load.More(20)
	load.Finish()

	testkit.Must(t, os.Remove(s.Path("hangs")))
	s.Write("fault", waits)
	s.Signal(old, syscall.SIGUSR2)
	next := s.Number("hangs")
	s.Signal(old, syscall.SIGKILL)
	s.Wait(old)
	c, err := net.Dial("tcp", s.Await("plain")) // the queue of the socket is still there
	testkit.Must(t, err)
	defer c.Close()
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: host\r\nContent-Length: 1\r\n\r\nx")
	s.Write("go", "")
	resp := testkit.Value(http.ReadResponse(bufio.NewReader(c), nil))(t)
	testkit.Equal(t, testkit.Value(upgrades.CheckEcho(resp, "x"))(t), fmt.Sprint(next))
	c.Close()
	testkit.WaitFor(s, "the new PID file", func() bool { return s.PID() == next })
	load = s.load(1)
	s.succeed(load)
}

// An idle connection serves one more request in the old process, whose response announces the end.
// A download and a websocket outlive the upgrade there.
func TestConnectionsOutliveUpgrade(t *testing.T) {
	for _, kind := range []string{"tare", "http"} {
		t.Run(kind, func(t *testing.T) {
			s := start(t, settings{Kind: kind, Grace: time.Hour})
			address := s.Await("plain")
			idle := &upgrades.RawClient{Network: "tcp", Address: address}
			defer idle.Close()
			testkit.Value(idle.Request("/", "x"))(t)
			download := s.get(address, "/download")
			from := fmt.Sprint(s.PID(), "\n")
			testkit.Equal(t, testkit.Value(download.ReadString('\n'))(t), from)
			socket, in := s.hijack(address)
			testkit.Equal(t, testkit.Value(in.ReadString('\n'))(t), from)
			old, _ := s.Upgrade() // which may serve a little longer than the new process needs to begin
			testkit.WaitFor(s, "the last response on the idle connection", func() bool {
				testkit.Equal(t, testkit.Value(idle.Request("/", "y"))(t), fmt.Sprint(old))
				return !idle.Kept
			})
			pid := testkit.Value(idle.Request("/", "z"))(t)
			testkit.Equal(t, pid == fmt.Sprint(old), false, "a new connection reaches the old process")
			io.WriteString(socket, "hello\n")
			testkit.Equal(t, testkit.Value(in.ReadString('\n'))(t), "hello\n")
			s.Write("finish", "")
			testkit.Equal(t, string(testkit.Value(io.ReadAll(download))(t)), "end")
			s.Signal(old, syscall.SIGTERM) // ends Grace
			io.WriteString(socket, "still here\n")
			testkit.Equal(t, testkit.Value(in.ReadString('\n'))(t), "still here\n")
			socket.Close()
			testkit.Equal(t, s.Wait(old), 0, "exit code")
			idle.Close()
			s.End()
		})
	}
}

// get sends a request and returns its response's body.
func (s *site) get(address, path string) *bufio.Reader {
	s.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp := testkit.Value((&http.Client{Transport: transport}).Get("http://" + address + path))(s)
	s.Cleanup(func() { resp.Body.Close() })
	return bufio.NewReader(resp.Body)
}

// hijack returns a connection that has changed its protocol.
func (s *site) hijack(address string) (net.Conn, *bufio.Reader) {
	s.Helper()
	c := testkit.Value(net.Dial("tcp", address))(s)
	s.Cleanup(func() { c.Close() })
	io.WriteString(c, "GET /socket HTTP/1.1\r\nHost: host\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	resp := testkit.Value(http.ReadResponse(in, nil))(s)
	testkit.Equal(s, resp.StatusCode, http.StatusSwitchingProtocols)
	return c, in
}

// DrainTimeout ends what does not end by itself, and the process reports that.
func TestDrainTimeoutEndsRequests(t *testing.T) {
	s := start(t, settings{Grace: time.Millisecond, Drain: 2 * time.Second})
	download := s.get(s.Await("plain"), "/download")
	testkit.Value(download.ReadString('\n'))(t)
	old, _ := s.Upgrade()
	testkit.Equal(t, s.Wait(old), 1, "exit code")
	testkit.Fails(io.ReadAll(download))(t, "", "the download")
	s.End()
}

// site is a running server, whose processes replace each other.
type site struct {
	*upgrades.Site
	settings settings
}

// start starts the server's first process. environment has further variables.
func start(t *testing.T, s settings, environment ...string) *site {
	t.Helper()
	return activate(t, s, nil, environment...)
}

// activate starts the server's first process with sockets, as a service manager does.
func activate(t *testing.T, s settings, sockets []*os.File, environment ...string) *site {
	t.Helper()
	if s.Folder == "" {
		s.Folder = t.TempDir()
	}
	text := testkit.Value(json.Marshal(s))(t)
	c := exec.Command(os.Args[0])
	if sockets != nil {
		c = exec.Command("sh", "-c", "LISTEN_PID=$$ exec "+os.Args[0])
		c.ExtraFiles = sockets
		environment = append(environment, "LISTEN_FDS="+strconv.Itoa(len(sockets)))
	}
	c.Env = append(os.Environ(), settingsVariable+"="+string(text))
	c.Env = append(c.Env, environment...)
	site := &site{&upgrades.Site{T: t, Folder: s.Folder}, s}
	site.Start(c)
	site.PID()
	return site
}

// clients returns clients of all kinds that the server has, each with its own connections.
func (s *site) clients() []upgrades.Client {
	plain := s.Await("plain")
	all := []upgrades.Client{
		&upgrades.RawClient{Network: "tcp", Address: plain},
		&upgrades.RawClient{Network: "tcp", Address: plain, Once: true},
	}
	if s.settings.Unix {
		all = append(all, &upgrades.RawClient{Network: "unix", Address: s.Path("socket")})
	}
	if s.settings.TLS {
		// net/http sends GOAWAY without a warning. A client then repeats the requests that were on
		// their way, which is safe: the server names those that it has accepted (RFC 9113, 6.8).
		all = append(all, &upgrades.HTTP2Client{Address: s.Await("secure"), MayRepeat: s.settings.Kind == "http"})
	}
	return all
}

// load starts n clients of each kind.
func (s *site) load(n int) *upgrades.Load {
	l := s.Load()
	for id := range n {
		for _, c := range s.clients() {
			l.Add(c, "/?", strconv.Itoa(id)+" ")
		}
	}
	return l
}
