package cli_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
)

// patience limits how long a test waits for an expected event.
const patience = 60 * time.Second

// served is a running "tare serve" process.
type served struct {
	t       *testing.T
	cmd     *exec.Cmd
	changed chan struct{} // replaced and closed with every line
	mu      sync.Mutex
	text    string
	done    chan error
}

// serveFiles starts a server and stops it at the end of the test.
func serveFiles(t *testing.T, args ...string) *served {
	t.Helper()
	return startServed(t, serveCommandLine(args...))
}

func serveCommandLine(args ...string) *exec.Cmd {
	return exec.Command("tare", append([]string{"serve"}, args...)...)
}

func startServed(t *testing.T, cmd *exec.Cmd) *served {
	t.Helper()
	s := &served{t: t, cmd: cmd, changed: make(chan struct{}), done: make(chan error, 1)}
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	cmd.Stderr = w
	process := testkit.Start(t, cmd)
	w.Close()
	go s.listen(r, process)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.done
		if t.Failed() {
			t.Logf("output:\n%s", s.stderr())
		}
	})
	return s
}

// listen records the server's output until it exits.
func (s *served) listen(r *os.File, p *testkit.Process) {
	defer r.Close()
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		s.mu.Lock()
		s.text += line
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			break
		}
	}
	s.done <- p.Wait()
	close(s.done)
}

func (s *served) stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// await waits until the server's output matches a pattern and returns the first match's groups.
func (s *served) await(pattern string) []string {
	s.t.Helper()
	re, deadline := regexp.MustCompile(pattern), time.After(patience)
	for {
		s.mu.Lock()
		text, changed := s.text, s.changed
		s.mu.Unlock()
		if m := re.FindStringSubmatch(text); m != nil {
			return m
		}
		select {
		case <-changed:
		case <-deadline:
			s.t.Fatalf("no output matches %q; the output is:\n%s", pattern, text)
		}
	}
}

// address waits until the server listens on TCP and returns the address.
func (s *served) address() string {
	s.t.Helper()
	return s.await(`on https?://(127\.0\.0\.1:\d+)/`)[1]
}

// stop sends a signal; the exit code must be 0.
func (s *served) stop(sig syscall.Signal) {
	s.t.Helper()
	if code := s.end(sig); code != 0 {
		s.t.Errorf("exit code %d", code)
	}
}

// end sends a signal and returns the exit code.
func (s *served) end(sig syscall.Signal) int {
	s.t.Helper()
	s.signal(sig)
	return s.wait()
}

func (s *served) signal(sig syscall.Signal) {
	s.t.Helper()
	testkit.Must(s.t, s.cmd.Process.Signal(sig))
}

func (s *served) wait() int {
	s.t.Helper()
	select {
	case err := <-s.done:
		var e *exec.ExitError
		if err != nil && !errors.As(err, &e) {
			s.t.Fatal(err)
		}
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		s.t.Fatal("it did not end")
	}
	return -1
}

// site creates a folder to serve, readable by all users.
func site(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(openDir(t), "site")
	testkit.Must(t, os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "index.html"), "hello")
	return dir
}

// openDir returns a temporary folder that other users can access.
func openDir(t *testing.T) string {
	t.Helper()
	dir := testkit.ShortDir(t)
	testkit.Must(t, os.Chmod(dir, 0o755))
	return dir
}

// write writes a file that all users can read, whatever the umask is.
func write(t *testing.T, name, text string) {
	t.Helper()
	testkit.Must(t, errors.Join(os.WriteFile(name, []byte(text), 0o644), os.Chmod(name, 0o644)))
}

func read(t *testing.T, name string) string {
	t.Helper()
	return string(testkit.Value(os.ReadFile(name))(t))
}

// get requests a path and requires the given body.
func get(t *testing.T, c *http.Client, url, want string) {
	t.Helper()
	resp := testkit.Value(c.Get(url))(t)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || string(b) != want {
		t.Fatalf("%s: %s, %q, %v", url, resp.Status, b, err)
	}
}

// client returns a client that dials with dial, or over TCP if it is nil.
func client(t *testing.T, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Client {
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// Every listener serves, and unix sockets are removed at the end.
func TestEveryListenerServes(t *testing.T) {
	t.Parallel()
	dir := site(t)
	socket := filepath.Join(filepath.Dir(dir), "socket")
	listeners := []string{"--listen", "127.0.0.1:0", "--listen", "unix:" + socket, "--socket-mode", "0660"}
	probe, err := net.Listen("tcp6", "[::1]:0")
	if err == nil {
		probe.Close()
		listeners = append(listeners, "--listen", "[::1]:0")
	} else {
		t.Logf("without IPv6: %v", err)
	}
	s := serveFiles(t, append(listeners, dir)...)
	get(t, client(t, nil), "http://"+s.address(), "hello")
	if err == nil {
		get(t, client(t, nil), "http://"+s.await(`on http://(\[::1\]:\d+)/`)[1], "hello")
	}
	s.await("on http over the unix socket " + socket)
	overUnix := client(t, func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) })
	get(t, overUnix, "http://any/", "hello")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	s.stop(syscall.SIGTERM)
	testkit.FailsWith(os.Stat(socket))(t, os.ErrNotExist, "the socket is left")
}

// Sockets passed by the service manager are served; a passed socket that is not configured is an
// error.
func TestPassedSocketsAreServed(t *testing.T) {
	t.Parallel()
	dir := site(t)
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	activated := func(args string) *served {
		file := testkit.Value(l.(*net.TCPListener).File())(t)
		defer file.Close()
		cmd := exec.Command("sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web exec tare serve "+args+" "+dir)
		cmd.ExtraFiles = []*os.File{file}
		return startServed(t, cmd)
	}
	for _, args := range []string{"", "--listen systemd", "--listen systemd:web"} {
		s := activated(args)
		testkit.Equal(t, s.address(), l.Addr().String(), args)
		get(t, client(t, nil), "http://"+l.Addr().String(), "hello")
		testkit.Equal(t, s.end(syscall.SIGTERM), 0, args, "exit code")
	}
	for args, why := range map[string]string{
		"-p 0":                   `socket 0 \("web"\) was passed, but no listener uses it`,
		"--listen systemd:other": "no socket of that name was passed",
	} {
		s := activated(args)
		s.await(why)
		testkit.Equal(t, s.wait(), 1, args, "exit code")
	}
}

// large exceeds the socket buffers of both sides.
const large = 64 << 20

// stalled requests a large file and reads only its start.
func stalled(t *testing.T, addr string) (rest io.ReadCloser) {
	t.Helper()
	resp, err := client(t, nil).Get("http://" + addr + "/large")
	if err == nil {
		_, err = io.ReadFull(resp.Body, make([]byte, 1000))
	}
	testkit.Must(t, err)
	return resp.Body
}

// Active requests are finished, after SIGTERM only within --grace and until a second one. All are
// logged.
func TestShutdownFinishesActiveRequests(t *testing.T) {
	t.Parallel()
	dir := site(t)
	write(t, filepath.Join(dir, "large"), "")
	testkit.Must(t, os.Truncate(filepath.Join(dir, "large"), large))
	for _, c := range []struct {
		sig   syscall.Signal
		grace string
		twice bool
		code  int
	}{{syscall.SIGTERM, "1m", false, 0}, {syscall.SIGQUIT, "0s", false, 0}, {syscall.SIGTERM, "10ms", false, 1},
		{syscall.SIGTERM, "1m", true, 1}} {
		log := filepath.Join(t.TempDir(), "log")
		s := serveFiles(t, "--listen", "127.0.0.1:0", "--grace", c.grace, "--access-log", log, dir)
		rest := stalled(t, s.address())
		get(t, client(t, nil), "http://"+s.address(), "hello")
		s.signal(c.sig)
		if c.twice {
			awaitRefusal(t, s.address())
			// Package interrupt takes repeated signals for one, and a third one ends the process.
			time.Sleep(300 * time.Millisecond)
			testkit.WaitFor(t, "the abort", func() (hasAborted bool) {
				_ = s.cmd.Process.Signal(c.sig)
				for range 500 {
					if hasAborted = strings.Contains(s.stderr(), "requests were aborted"); hasAborted {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				return hasAborted
			})
		}
		if c.code == 0 {
			awaitRefusal(t, s.address())
			if n, err := io.Copy(io.Discard, rest); n != large-1000 || err != nil {
				t.Errorf("%v: %d bytes more, %v", c.sig, n, err)
			}
		} else {
			s.await("requests were aborted")
		}
		rest.Close()
		testkit.Equal(t, s.wait(), c.code, "exit code after", c.sig)
		testkit.Equal(t, strings.Count(string(testkit.Value(os.ReadFile(log))(t)), "\n"), 2, "logged after", c.sig)
	}
}

// awaitRefusal waits until nothing listens.
func awaitRefusal(t *testing.T, addr string) {
	t.Helper()
	testkit.WaitFor(t, "the listener to close", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

// A home and the root folder are not served by accident, however they are named.
func TestHomeAndRootFolderAreNotServed(t *testing.T) {
	t.Parallel()
	home := openDir(t)
	link := filepath.Join(openDir(t), "link")
	testkit.Must(t, os.Symlink(home, link))
	below := filepath.Join(home, "public")
	testkit.Must(t, os.Mkdir(below, 0o755))
	refused := func(dir string, args ...string) {
		t.Helper()
		cmd := serveCommandLine(append([]string{"--listen", "127.0.0.1:0"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+home)
		s := startServed(t, cmd)
		s.await(`tare: serve: refusing to serve (your home|the root folder) "?/`)
		testkit.Equal(t, s.wait(), 2, "exit code")
	}
	refused(home)
	refused(home, ".")
	refused(below, "..")
	refused("/", link)
	refused("/")
	refused(home, "/tmp/..")
	refused(home, filepath.Dir(home)) // it has the home in it
	for _, args := range [][]string{{below}, {home, "--unsafe-dir"}} {
		cmd := serveCommandLine(append([]string{"--listen", "127.0.0.1:0"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		s := startServed(t, cmd)
		s.address()
		s.stop(syscall.SIGINT)
	}
}

// On a disk without space, requests whose bodies need a temporary file get 500, and the log names
// the error. Others are served, and all are when there is space again.
func TestFullDiskRejectsLargeBodies(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	f := newFrontSite(t)
	disk := f.path("disk")
	testkit.Must(t, os.Mkdir(disk, 0o755))
	f.configure(`user 64123 64123;
events {}
http {
	server { listen 127.0.0.1:81; return 200 "stored"; }
	server { listen 127.0.0.1:80; location / { proxy_pass http://127.0.0.1:81; } }
}`)
	f.served = startServed(t, apartCommand(disk, "env", "TMPDIR="+disk, "tare", "serve", "-c", f.path("nginx.conf")))
	f.await("tare: running as 64123")
	c := within(t, f.cmd.Process.Pid)
	post := func(size, want int) {
		t.Helper()
		resp, err := c.Post("http://127.0.0.1/", "text/plain", strings.NewReader(strings.Repeat("x", size)))
		testkit.Must(t, err)
		resp.Body.Close()
		testkit.Equal(t, resp.StatusCode, want, "status of", size, "bytes")
	}
	const small, large = 1 << 10, 128 << 10 // the disk has 64 KB
	post(small, http.StatusOK)
	post(large, http.StatusInternalServerError)
	f.await(`\[crit\].* reading the request's body: write .*: no space left on device`)
	post(small, http.StatusOK)
	enlarge(t, f.cmd.Process.Pid, disk)
	post(large, http.StatusOK)
	f.stop(syscall.SIGTERM)
}

// longAgent makes log lines long, so that few requests fill the log.
var longAgent = strings.Repeat("x", 4000)

// enough is the number of requests that fill two queues and a pipe with lines of longAgent.
const enough = 700

// flood sends requests, all of which must have a response.
func flood(t *testing.T, c *http.Client, url string, n int) {
	t.Helper()
	for range n {
		req := testkit.Value(http.NewRequest(http.MethodGet, url, nil))(t)
		req.Header.Set("User-Agent", longAgent)
		resp, err := c.Do(req)
		testkit.Must(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", resp.Status, err)
		}
	}
}

// A pipe without a reader loses only lines. A later reader learns how many.
func TestUnreadPipeLosesOnlyLogLines(t *testing.T) {
	t.Parallel()
	dir := site(t)
	pipe := filepath.Join(filepath.Dir(dir), "pipe")
	testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
	s := serveFiles(t, "--listen", "127.0.0.1:0", "--access-log", pipe, "--log-format", "json", dir)
	c, url := client(t, nil), "http://"+s.address()
	get(t, c, url, "hello")
	reader := testkit.Value(os.Open(pipe))(t)
	defer reader.Close()
	lines := bufio.NewReader(reader)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"uri":"/"`) {
		t.Fatalf("%q, %v", line, err)
	}
	flood(t, c, url, enough)
	s.await("tare: front: .*pipe: dropping lines: the output accepts nothing")
	get(t, c, url, "hello")
	for {
		line := testkit.Value(lines.ReadString('\n'))(t)
		if strings.Contains(line, `"lost":`) {
			break
		}
	}
	s.await(`tare: front: .*pipe: writing lines again; \d+ were lost`)
	s.stop(syscall.SIGTERM)
}

// If a log is renamed and reopened during requests, each request is in exactly one of the files.
func TestRotationLosesNoLine(t *testing.T) {
	t.Parallel()
	dir := site(t)
	log := filepath.Join(filepath.Dir(dir), "access.log")
	s := serveFiles(t, "--listen", "127.0.0.1:0", "--access-log", log, "--log-format", "common", dir)
	c, url := client(t, nil), "http://"+s.address()
	s.await("access.log: SIGUSR1 reopens it")
	const rotations = 5
	requested := 0
	var stopped atomic.Bool
	var clients sync.WaitGroup
	clients.Go(func() {
		for ; !stopped.Load(); requested++ {
			resp, err := c.Get(fmt.Sprintf("%s/?request=%d.", url, requested))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		}
	})
	for i := range rotations {
		testkit.Must(t, os.Rename(log, fmt.Sprintf("%s.%d", log, i)))
		s.signal(syscall.SIGUSR1)
		awaitRepeated(t, s, "logs: reopened", i+1)
	}
	stopped.Store(true)
	clients.Wait()
	s.stop(syscall.SIGTERM)
	all := read(t, log)
	for i := range rotations {
		all += read(t, fmt.Sprintf("%s.%d", log, i))
	}
	testkit.Equal(t, strings.Count(all, "\n"), requested, "lines")
	for i := range requested {
		if n := strings.Count(all, fmt.Sprintf("/?request=%d. HTTP/1.1\" 200 5", i)); n != 1 {
			t.Fatalf("request %d has %d lines", i, n)
		}
	}
}

// awaitRepeated waits until a text was printed a number of times.
func awaitRepeated(t *testing.T, s *served, text string, times int) {
	t.Helper()
	testkit.WaitFor(t, fmt.Sprintf("%q, %d times", text, times), func() bool { return strings.Count(s.stderr(), text) >= times })
}
