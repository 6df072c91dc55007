package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/upgrades"
)

// leakable is a configuration with all that a reload shares or replaces. %d changes.
const leakable = `
events {}
error_log DIR/error%d.log;
http {
	resolver 127.0.0.1:1;
	access_log DIR/access%d.log;
	proxy_cache_path DIR/cache keys_zone=z:1m max_size=%dm;
	limit_req_zone $binary_remote_addr zone=r:%dm rate=1000r/s;
	map $uri $to { default a%d; ~^/(.)%d b; }
	upstream kept { keepalive %d; server HOST; }
	upstream named { zone named 64k; server none.invalid resolve; }
	server {
		listen ADDR;
		keepalive_timeout %dh;
		location / { limit_req zone=r burst=9; proxy_pass http://kept; proxy_http_version 1.1; proxy_set_header Connection ""; }
		location /c { proxy_cache z; proxy_cache_valid 1m; proxy_pass http://kept; }
		location /n { proxy_pass http://named; }
		location /v { proxy_pass http://$to:1; }
		location /t { return 200 $to; }
	}
}`

// 100 reloads, some of which fail, leave no goroutine, descriptor or memory behind.
func TestReloadsLeakNothing(t *testing.T) {
	testkit.Long(t, "it reloads 100 times")
	dir := t.TempDir()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hi")
	}))
	defer upstream.Close()
	front := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	path := filepath.Join(dir, "nginx.conf")
	text := strings.NewReplacer("DIR", dir, "HOST", upstream.Listener.Addr().String(), "ADDR", front.Addr().String(),
		"%d", "%[1]d").Replace(leakable)
	write := func(i int) {
		config := fmt.Sprintf(text, 1+i%3)
		if i%10 == 9 {
			config = strings.Replace(config, dir+"/access", dir+"/missing/access", 1)
		}
		testkit.Must(t, os.WriteFile(path, []byte(config), 0o600))
	}
	write(0)
	s, ended := run(t, path, server.Options{Listeners: []net.Listener{front}})
	client := &http.Client{Transport: &http.Transport{}}
	reload := func(from, to int) {
		for i := from; i < to; i++ {
			write(i)
			testkit.Equal(t, s.Reload() != nil, i%10 == 9, "the error of reload", i)
			paths := []string{"/", "/c", "/v", "/t"}
			if i%5 == 0 {
				paths = append(paths, "/n") // which waits for its name
			}
			for _, path := range paths {
				resp := testkit.Value(client.Get("http://" + front.Addr().String() + path))(t)
				resp.Body.Close()
			}
		}
	}
	reload(0, 30)
	before := usage(t)
	reload(30, 130)
	var after [3]int64
	testkit.WaitFor(t, "goroutines, descriptors and heap to be as before", func() bool {
		after = usage(t)
		return after[0] <= before[0]+5 && after[1] <= before[1]+5 && after[2] <= before[2]+500<<10
	})
	t.Logf("%v, %v", before, after)
	client.CloseIdleConnections()
	s.Drain()
	testkit.Check(t, <-ended)
}

// usage returns the numbers of goroutines, of descriptors, and of bytes of the heap.
func usage(t *testing.T) [3]int64 {
	runtime.GC()
	runtime.GC()
	files := testkit.Value(os.ReadDir("/proc/self/fd"))(t)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return [3]int64{int64(runtime.NumGoroutine()), int64(len(files)), int64(m.HeapAlloc)}
}

// A reload applies the settings of sockets and of the process. It reports those that only a start
// applies.
func TestReloadAppliesOrReportsSettings(t *testing.T) {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	sockets := func() (backlog, reusePort int) {
		testkit.Control(t, l, func(fd int) {
			info := testkit.Value(unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO))(t)
			backlog = int(info.Sacked) // of a listening socket
			reusePort = testkit.Value(unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT))(t)
		})
		return backlog, reusePort
	}
	usualBacklog, _ := sockets()
	runtime.SetDefaultGOMAXPROCS() // as "auto" does, whatever the environment says
	usualProcs := runtime.GOMAXPROCS(0)
	path, log := filepath.Join(t.TempDir(), "nginx.conf"), new(testkit.Log)
	configure := func(main, parameters string) {
		text := main + " events {} http { access_log off; server { listen ADDR " + parameters + "; } }"
		testkit.Must(t, os.WriteFile(path, []byte(strings.Replace(text, "ADDR", l.Addr().String(), 1)), 0o600))
	}
	configure("", "")
	s, ended := run(t, path, server.Options{Stdout: log, Stderr: log, Listeners: []net.Listener{l}})
	for _, c := range []struct {
		main, parameters          string
		backlog, reusePort, procs int
	}{
		{"worker_processes 1;", "backlog=7 reuseport", 7, 1, 1},
		{"worker_processes 2;", "backlog=9", 9, 0, 2},
		{"worker_processes auto;", "", usualBacklog, 0, usualProcs},
		{"user nosuch;", "", usualBacklog, 0, usualProcs},
	} {
		configure(c.main, c.parameters)
		testkit.Must(t, s.Reload())
		backlog, reusePort := sockets()
		if procs := runtime.GOMAXPROCS(0); backlog != c.backlog || reusePort != c.reusePort || procs != c.procs {
			t.Errorf("%s listen %s: backlog %d, SO_REUSEPORT %d, %d processors; want %d, %d, %d", c.main, c.parameters,
				backlog, reusePort, procs, c.backlog, c.reusePort, c.procs)
		}
	}
	s.Drain()
	testkit.Check(t, <-ended)
	const want = "warning: user: the change requires a restart"
	if got := log.String(); strings.Count(got, "requires a restart") != 1 || !strings.Contains(got, want) {
		t.Errorf("log:\n%s\nwant once %q", got, want)
	}
}

// holding is a configuration whose requests never end by themselves. LOG changes.
const holding = `
worker_shutdown_timeout 100ms;
events {}
http {
	access_log DIR/LOG;
	proxy_cache_path DIR/cache keys_zone=z:1m;
	limit_req_zone $server_name zone=slow:1m rate=1r/m;
	proxy_read_timeout 1h;
	proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
	server {
		listen unix:DIR/s http2;
		location / { proxy_pass http://UPSTREAM; }
		location /unbuffered { proxy_pass http://UPSTREAM; proxy_buffering off; }
		location /patient { proxy_pass http://UPSTREAM; proxy_ignore_client_abort on; }
		location /cached { proxy_pass http://UPSTREAM; proxy_cache z; proxy_cache_valid 1h; }
		location /mirrored { mirror /copy; return 200; }
		location /copy { internal; proxy_pass http://UPSTREAM; }
		location /file { alias DIR/large; }
		location /limited { limit_req zone=slow burst=9; return 200; }
		location /app { proxy_pass http://app; }
		location /app/cached { proxy_pass http://app; proxy_cache z; proxy_cache_valid 1h; }
		location /unlogged { access_log off; proxy_pass http://UPSTREAM; }
		location /unlogged/app { access_log off; proxy_pass http://app; }
	}
}`

// endless responds with nothing, or with one event, and then never ends by itself. It switches
// protocols on request.
func endless(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Upgrade") != "":
		c, stream, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(io.Discard, stream)
		return
	case !strings.Contains(r.URL.Path, "silent"):
		_, _ = io.WriteString(w, "event\n")
		_ = http.NewResponseController(w).Flush()
	}
	<-r.Context().Done()
}

// After worker_shutdown_timeout nothing of the configuration before a reload is left, whatever its
// requests wait for. At the end of the process websockets are logged, too.
func TestShutdownTimeoutEndsWhatAReloadLeaves(t *testing.T) {
	dir := testkit.ShortDir(t)
	behind := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	upstream := &http.Server{Handler: http.HandlerFunc(endless)}
	go func() { _ = upstream.Serve(behind) }()
	t.Cleanup(func() { upstream.Close() })
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "large"), make([]byte, 64<<20), 0o644))
	path := filepath.Join(dir, "nginx.conf")
	configure := func(log string) {
		text := strings.NewReplacer("DIR", dir, "UPSTREAM", behind.Addr().String(), "LOG", log).Replace(holding)
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	configure("before.log")
	s, ended := run(t, path, server.Options{}, server.Bind("app", http.HandlerFunc(endless)))
	clients := make(map[string]net.Conn)
	begin := func(name, request, until string) {
		c := dial(t, "unix", filepath.Join(dir, "s"), request)
		for r := bufio.NewReader(c); until != ""; {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if strings.Contains(line, until) {
				break
			}
		}
		clients[name] = c
	}
	const host, upgrade = " HTTP/1.1\r\nHost: a\r\n", "Connection: upgrade\r\nUpgrade: x\r\n"
	for _, path := range []string{"/unbuffered", "/app"} {
		begin(path, "GET "+path+host+"\r\n", "event")
	}
	for _, path := range []string{"/", "/silent", "/patient", "/patient/silent", "/app/silent", "/app/cached",
		"/cached", "/cached/silent", "/limited", "/limited?"} {
		begin(path, "GET "+path+host+"\r\n", "")
	}
	begin("/file", "GET /file"+host+"\r\n", "200")
	for _, path := range []string{"/", "/app", "/unlogged", "/unlogged/app"} {
		begin("websocket "+path, "GET "+path+host+upgrade+"\r\n", "101")
	}
	begin("unfinished head", "GET /"+host, "")
	begin("HTTP/2", http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+
		"\x00\x00\x05\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x00", "")
	begin("/mirrored", "GET /mirrored"+host+"\r\n", "200") // the connections before it were accepted
	configure("after.log")
	testkit.Must(t, s.Reload())
	for name, c := range clients {
		_, err := io.Copy(io.Discard, c)
		testkit.Equal(t, os.IsTimeout(err), false, name, "is still open")
	}
	testkit.WaitFor(t, "the end of the configuration of before",
		func() bool { return !isOpen(filepath.Join(dir, "before.log")) })
	stored := testkit.Value(filepath.Glob(filepath.Join(dir, "cache", "*[0-9a-f]")))(t)
	testkit.Equal(t, len(stored), 0, "responses that were cut off are stored", stored)
	begin("last", "GET /"+host+upgrade+"\r\n", "101")
	begin("last app", "GET /app"+host+upgrade+"\r\n", "101")
	s.Drain()
	testkit.Is(t, <-ended, server.ErrAborted)
	b := testkit.Value(os.ReadFile(filepath.Join(dir, "after.log")))(t)
	testkit.Equal(t, strings.Count(string(b), " 101 "), 2, "websockets in the log")
}

// After SIGTERM requests may take Options.Grace, also if SIGQUIT came before it, unless
// worker_shutdown_timeout is shorter.
func TestGraceBeginsWithSIGTERM(t *testing.T) {
	for name, c := range map[string]struct {
		limit string
		want  error
	}{"grace": {"0", nil}, "worker_shutdown_timeout": {"1ms", server.ErrAborted}} {
		for _, isQuitFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, SIGQUIT %v", name, isQuitFirst), func(t *testing.T) {
				t.Parallel()
				dir := testkit.ShortDir(t)
				path, begun, release := filepath.Join(dir, "nginx.conf"), make(chan struct{}), make(chan struct{})
				handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					close(begun)
					select {
					case <-release:
					case <-r.Context().Done():
					}
				})
				text := fmt.Sprintf("worker_shutdown_timeout %s; events {} http { server { listen unix:%s/s; "+
					"location / { proxy_pass http://app; } } }", c.limit, dir)
				testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
				ready, draining := make(chan struct{}), make(chan struct{})
				s := server.New(server.File{Path: path}, server.Options{Grace: time.Hour, NoSignals: true,
					Stdout: io.Discard, Stderr: io.Discard, Ready: func() { close(ready) },
					Draining: func() { close(draining) }}, server.Bind("app", handler))
				ctx, end := context.WithCancel(t.Context())
				defer end()
				ended := testkit.Run(t, func(context.Context) error { return s.Run(ctx) }, ready)
				dial(t, "unix", filepath.Join(dir, "s"), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				<-begun
				if isQuitFirst {
					s.Drain()
					<-draining
				}
				end()
				<-draining
				if c.want == nil {
					time.AfterFunc(50*time.Millisecond, func() { close(release) })
				}
				testkit.Is(t, <-ended, c.want)
			})
		}
	}
}

// isOpen reports whether the process has a file open.
func isOpen(path string) bool {
	files, _ := os.ReadDir("/proc/self/fd")
	for _, f := range files {
		if to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%s", f.Name())); err == nil && to == path {
			return true
		}
	}
	return false
}

// serviceManager receives states, as systemd does.
type serviceManager struct {
	*testing.T
	path   string
	socket *net.UnixConn
}

func newServiceManager(t *testing.T) *serviceManager {
	m := &serviceManager{T: t, path: filepath.Join(t.TempDir(), "notify")}
	m.socket = testkit.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}))(t)
	t.Cleanup(func() { m.socket.Close() })
	return m
}

// receive returns the states of the next message. Its STATUS is left out, because it is for people.
func (m *serviceManager) receive() (states []string) {
	m.Helper()
	b := make([]byte, 4096)
	testkit.Must(m, m.socket.SetReadDeadline(time.Now().Add(upgrades.Patience)))
	n := testkit.Value(m.socket.Read(b))(m)
	for _, state := range strings.Split(string(b[:n]), "\n") {
		if !strings.HasPrefix(state, "STATUS=") {
			states = append(states, state)
		}
	}
	return states
}

// expect requires a message with these states.
func (m *serviceManager) expect(want ...string) {
	m.Helper()
	testkit.Equal(m, m.receive(), want)
}

// expectReloading requires the message that begins a reload. Its time must be between since, when
// the reload was requested, and now: otherwise systemd takes it for that of an earlier reload.
func (m *serviceManager) expectReloading(since int64) {
	m.Helper()
	got := m.receive()
	if len(got) != 2 || got[0] != "RELOADING=1" {
		m.Fatalf("got %q, want RELOADING=1 and MONOTONIC_USEC", got)
	}
	text, ok := strings.CutPrefix(got[1], "MONOTONIC_USEC=")
	us, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || us < since || us > monotonicUs(m.T) || strconv.FormatInt(us, 10) != text {
		m.Errorf("got %q, want MONOTONIC_USEC from %d on", got[1], since)
	}
}

// monotonicUs returns the time of CLOCK_MONOTONIC, in microseconds.
func monotonicUs(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	testkit.Must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Nano() / 1000
}

// The messages are those of Type=notify-reload (sd_notify(3), systemd.service(5)): RELOADING=1 with
// MONOTONIC_USEC, then READY=1, for each reload, also if it fails or is not possible. Without them
// "systemctl reload" would wait until its timeout.
func TestServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	m := newServiceManager(t)
	s := newSite(t, time.Hour, "NOTIFY_SOCKET="+m.path)
	m.expect(fmt.Sprintf("MAINPID=%d", s.PID()), "READY=1")
	reload := func(config string) {
		t.Helper()
		s.write("nginx.conf", config)
		since := monotonicUs(t)
		s.Signal(s.PID(), syscall.SIGHUP)
		m.expectReloading(since)
		m.expect("READY=1")
	}
	reload(upgradable)
	reload("rubbish;")
	reload(strings.Replace(upgradable, "listen HOST:8000;", "listen 192.0.2.1:8000;", 1))
	reload(upgradable)
	s.write("fault", hangs)
	since := monotonicUs(t)
	s.Signal(s.PID(), syscall.SIGUSR2)
	m.expectReloading(since)
	child := s.Number("hangs")
	reload(upgradable) // fails: the new process may have read the file
	s.Signal(child, syscall.SIGKILL)
	m.expect("READY=1")
	s.AwaitLog("upgrade: failed, this process serves on", 1)
	s.write("fault", "")
	since = monotonicUs(t)
	old := s.upgrade()
	m.expectReloading(since)
	m.expect(fmt.Sprintf("MAINPID=%d", s.PID()), "READY=1")
	s.end(old)
	m.expect("STOPPING=1")
}
