package upgrade_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
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
			if _, err := os.Stat(s.Path("socket")); err == nil {
				t.Error("the last process leaves the unix socket's file")
			}
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
			if log := s.Read("log"); strings.Count(log, want) != 3 {
				t.Errorf("want %q in\n%s", want, log)
			}
			if got := s.PID(); got != pid {
				t.Errorf("process %d serves, want %d", got, pid)
			}
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
	if pid, err := upgrades.CheckEcho(resp, "x"); pid != fmt.Sprint(next) || err != nil {
		t.Errorf("process %s responds, %v, want %d", pid, err, next)
	}
	c.Close()
	s.Eventually("the new PID file", func() bool { return s.PID() == next })
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
			if _, err := idle.Request("/", "x"); err != nil {
				t.Fatal(err)
			}
			download := s.get(address, "/download")
			from := fmt.Sprint(s.PID(), "\n")
			if got, _ := download.ReadString('\n'); got != from {
				t.Errorf("got %q, want %q", got, from)
			}
			socket, in := s.hijack(address)
			if got, _ := in.ReadString('\n'); got != from {
				t.Errorf("got %q, want %q", got, from)
			}
			old, _ := s.Upgrade() // which may serve a little longer than the new process needs to begin
			s.Eventually("the last response on the idle connection", func() bool {
				if pid, err := idle.Request("/", "y"); pid != fmt.Sprint(old) || err != nil {
					t.Fatalf("process %s responds, %v; want %d", pid, err, old)
				}
				return !idle.Kept
			})
			if pid, err := idle.Request("/", "z"); pid == fmt.Sprint(old) || err != nil {
				t.Errorf("process %s responds to a new connection, %v", pid, err)
			}
			io.WriteString(socket, "hello\n")
			if got, err := in.ReadString('\n'); got != "hello\n" {
				t.Errorf("got %q, %v", got, err)
			}
			s.Write("finish", "")
			if got, err := io.ReadAll(download); string(got) != "end" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			s.Signal(old, syscall.SIGTERM) // ends Grace
			io.WriteString(socket, "still here\n")
			if got, err := in.ReadString('\n'); got != "still here\n" {
				t.Errorf("got %q, %v", got, err)
			}
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
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		s.Fatalf("%v, %v", resp, err)
	}
	return c, in
}

// DrainTimeout ends what does not end by itself, and the process reports that.
func TestDrainTimeoutEndsRequests(t *testing.T) {
	s := start(t, settings{Grace: time.Millisecond, Drain: 2 * time.Second})
	download := s.get(s.Await("plain"), "/download")
	if _, err := download.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	old, _ := s.Upgrade()
	testkit.Equal(t, s.Wait(old), 1, "exit code")
	if got, err := io.ReadAll(download); err == nil {
		t.Errorf("the download ended in good order: %q", got)
	}
	s.End()
}
