package server_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/front/http3"
	"github.com/tarehq/tare/front/internal/quic"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
	"github.com/tarehq/tare/internal/testkit/upgrades"
	"github.com/tarehq/tare/upgrade"
)

// The tests of upgrades start their own program again as a server.

// folderVariable is the variable of the environment that makes this program a server. It names the
// folder of the server's files.
const folderVariable = "TARE_TEST_SITE"

// Faults of new processes. The file "fault" in the folder holds one.
const (
	exits = "exit" // once everything is open
	fails = "fail" // likewise, with an error
	lacks = "lack" // descriptors for HTTP/3
	hangs = "hang" // likewise; writes its process ID to the file "hangs"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(folderVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := runProgram(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runProgram is the server's main function.
func runProgram(dir string) error {
	upgrades.ExitWithTest()
	ready, err := time.ParseDuration(os.Getenv("TARE_TEST_READY"))
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	options := server.Options{
		HTTP3: func(c quic.Config) (quic.Server, error) {
			if fault, _ := os.ReadFile(filepath.Join(dir, "fault")); string(fault) == lacks {
				return nil, syscall.EMFILE
			}
			return http3.New()(c)
		},
		Stderr: log, Prepare: func(context.Context) error { return fail(dir) },
		Privileges: server.Privileges{DefaultUser: os.Getenv("TARE_TEST_USER"), Sandbox: "auto"},
		Upgrade: &upgrade.Options{
			Executable: filepath.Join(dir, "program"), ReadyTimeout: ready, IdleGrace: time.Hour,
		},
	}
	if os.Getenv("TARE_TEST_CONFINED") != "" {
		if options.Privileges.Root, err = os.OpenRoot(dir); err != nil {
			return err
		}
	}
	pid := strconv.Itoa(os.Getpid())
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // an echo
		b, err := io.ReadAll(r.Body)
		if err == nil {
			w.Header().Set("Pid", pid)
			_, _ = w.Write(b)
		}
	})
	err = server.Run(context.Background(), server.File{Path: filepath.Join(dir, "nginx.conf")}, options,
		server.Bind("app", app))
	if err != nil {
		fmt.Fprintln(log, err)
	}
	return err
}

// fail has the fault of the file "fault".
func fail(dir string) error {
	fault, _ := os.ReadFile(filepath.Join(dir, "fault")) // none is no fault
	switch string(fault) {
	case exits:
		os.Exit(7)
	case fails:
		return errors.New("a fault")
	case hangs:
		if err := upgrades.Announce(filepath.Join(dir, "hangs"), strconv.Itoa(os.Getpid())); err != nil {
			return err
		}
		select {}
	}
	return nil
}

// site is a running server, whose processes replace each other.
type site struct {
	*upgrades.Site
	host   string // an address of the loopback network that no other test has
	failed int    // upgrades that failed on purpose

	canceled atomic.Int64 // requests that a client has canceled, and may be in the log
}

// upgradable is a configuration. DIR stands for the folder, HOST for the host.
const upgradable = `pid DIR/pid;
worker_shutdown_timeout 10m;
events {}
http {
	log_format uri $request_uri;
	access_log DIR/access.log uri;
	upstream scripts { server unix:DIR/fcgi; keepalive 4; }
	upstream sockets { server unix:DIR/websocket; }
	server {
		listen HOST:8000; listen HOST:8001; listen unix:DIR/socket; listen HOST:8443 ssl http2;
		listen HOST:8443 quic;
		ssl_certificate DIR/cert.pem; ssl_certificate_key DIR/cert.pem;
		location / { proxy_pass http://app; }
		location /fcgi { fastcgi_pass scripts; fastcgi_param REQUEST_METHOD $request_method;
			fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param REQUEST_URI $request_uri;
			fastcgi_param SERVER_PROTOCOL $server_protocol; }
		location /websocket { proxy_pass http://sockets; proxy_http_version 1.1;
			proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }
	}
}
`

// newSite starts the server's first process. ready is its Options.Upgrade.ReadyTimeout. Tests of
// sites without load run in parallel.
func newSite(t *testing.T, ready time.Duration, environment ...string) *site {
	t.Helper()
	return newSiteWith(t, upgradable, ready, environment...)
}

// newSiteWith is newSite with another configuration.
func newSiteWith(t *testing.T, config string, ready time.Duration, environment ...string) *site {
	t.Helper()
	dir := testkit.ShortDir(t) // other users can enter it
	testkit.Must(t, os.Chmod(dir, 0o777))
	id := crc32.ChecksumIEEE([]byte(dir))
	s := &site{Site: &upgrades.Site{T: t, Folder: dir},
		host: fmt.Sprintf("127.%d.%d.%d", 1+id>>16&63, id>>8&255, 1+id%254)}
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost"}})
	// Not by s.write: the base64 text may contain DIR or HOST.
	testkit.Must(t, os.WriteFile(s.Path("cert.pem"), append(cert, key...), 0o644))
	s.write("nginx.conf", config)
	s.write("log", "")
	s.install()
	s.serveUpstreams()
	c := exec.Command(s.Path("program"))
	c.Env = append(os.Environ(), folderVariable+"="+s.Folder, "TARE_TEST_READY="+ready.String())
	c.Env = append(c.Env, environment...)
	s.Start(c)
	s.AwaitLog("tare: running as ", 1)
	return s
}

// serveUpstreams serves FastCGI, and a protocol that is switched to, on unix sockets.
func (s *site) serveUpstreams() {
	listen := func(name string) net.Listener {
		l := testkit.Value(net.Listen("unix", s.Path(name)))(s)
		s.Cleanup(func() { l.Close() })
		testkit.Must(s, os.Chmod(s.Path(name), 0o777))
		return l
	}
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	scripts := &fcgi.Server{Handler: echo}
	go func(l net.Listener) { _ = scripts.Serve(l) }(listen("fcgi"))
	s.Cleanup(func() { _ = scripts.Close() })
	sockets := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, stream, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(c, stream)
	})}
	go func(l net.Listener) { _ = sockets.Serve(l) }(listen("websocket"))
	s.Cleanup(func() { _ = sockets.Close() })
}

// write writes a file, in which DIR and HOST are replaced.
func (s *site) write(name, text string) {
	s.Helper()
	s.Write(name, strings.NewReplacer("DIR", s.Folder, "HOST", s.host).Replace(text))
}

// install copies this program to where all users may execute it. Another program, cp, writes the
// copy: programs that parallel tests start would inherit the open file, and no process can execute a
// file that is open for writing.
func (s *site) install() {
	s.Helper()
	testkit.Must(s, errors.Join(testkit.Command(s, "cp", os.Args[0], s.Path("program.new")).Run(),
		os.Chmod(s.Path("program.new"), 0o755), os.Rename(s.Path("program.new"), s.Path("program"))))
}

// upgrade replaces the process that serves, and returns the old one.
func (s *site) upgrade() (old int) {
	s.Helper()
	old, _ = s.Upgrade()
	return old
}

// end stops the server in good order. replaced are the processes that others have replaced.
func (s *site) end(replaced ...int) {
	s.Helper()
	s.End(replaced...)
	for _, name := range []string{"pid.oldbin", "socket"} {
		testkit.Fails(os.Lstat(s.Path(name)))(s, "no such file", name)
	}
}
