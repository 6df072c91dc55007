//go:build linux

package corpus_test

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// ports maps the ports in a site's nginx.conf to real ones.
type ports struct {
	listeners map[string]*net.TCPListener // of the front, by port in nginx.conf
	apps      map[string]*application
	down      map[string]int // ports without a listener
	dir       string
}

const fastCGIPorts = "90" // the prefix of FastCGI ports

// assign finds the ports in a site's files, and opens them.
func (s *site) assign(t *testing.T, dir string) *ports {
	t.Helper()
	p := &ports{listeners: make(map[string]*net.TCPListener), apps: make(map[string]*application),
		down: make(map[string]int), dir: dir}
	for _, f := range s.archive.Files {
		if f.Name != "nginx.conf" && !strings.HasPrefix(f.Name, "etc/nginx/") {
			continue
		}
		text := string(f.Data)
		for _, m := range listenPort.FindAllStringSubmatch(text, -1) {
			if p.listeners[m[2]] == nil {
				p.listeners[m[2]] = listenLocal(t)
			}
		}
		for _, m := range upstreamPort.FindAllStringSubmatch(text, -1) {
			port := m[1]
			switch {
			case p.listeners[port] != nil || p.apps[port] != nil || p.down[port] != 0:
			case s.file("upstream/"+port+"/down") != "":
				p.down[port] = refuse(t)
			default:
				p.apps[port] = startApplication(t, s, port, listenLocal(t), p.substitute)
			}
		}
		for _, m := range socketPath.FindAllStringSubmatch(text, -1) {
			if name := m[1]; p.apps[name] == nil {
				p.apps[name] = startApplication(t, s, name, nil, p.substitute)
			}
		}
	}
	return p
}

var (
	listenPort   = regexp.MustCompile(`\blisten(\s+)(?:127\.0\.0\.1:|\*:)?(\d+)`)
	upstreamPort = regexp.MustCompile(`\b127\.0\.0\.1:(\d+)`)
	socketPath   = regexp.MustCompile(`(?:_pass|server) (?:http://)?unix:(/run/[\w./-]+)`)
	// several workers would have separate turns and counts
	workers = regexp.MustCompile(`worker_processes \w+;`)
	rooted  = regexp.MustCompile(`(^|[\s"':=@])(/(?:srv|run|var|etc/nginx|etc/ssl)\b)`)
)

// substitute replaces ports and folders in a text by those of this run.
func (p *ports) substitute(text string) string {
	text = listenPort.ReplaceAllStringFunc(text, func(m string) string {
		g := listenPort.FindStringSubmatch(m)
		return "listen" + g[1] + "127.0.0.1:" + g[2]
	})
	text = upstreamPort.ReplaceAllStringFunc(text, func(m string) string {
		return "127.0.0.1:" + p.real(strings.TrimPrefix(m, "127.0.0.1:"))
	})
	text = workers.ReplaceAllString(text, "worker_processes 1;")
	for i, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		// not the machine's own folders
		if !strings.Contains(text, kind+"_temp_path") {
			text = strings.Replace(text, "\nhttp {\n",
				fmt.Sprintf("\nhttp {\n%s_temp_path /var/cache/%c;\n", kind, 'a'+i), 1)
		}
	}
	return rooted.ReplaceAllString(text, "${1}"+p.dir+"${2}")
}

// real returns the real port for one in nginx.conf.
func (p *ports) real(port string) string {
	switch {
	case p.listeners[port] != nil:
		return portOf(p.listeners[port])
	case p.down[port] != 0:
		return strconv.Itoa(p.down[port])
	case p.apps[port] != nil:
		return portOf(p.apps[port].listener)
	}
	return port
}

// restore is the inverse of substitute.
func (p *ports) restore(text string) string {
	var pairs []string
	for port, l := range p.listeners {
		pairs = append(pairs, portOf(l), port)
	}
	for port, app := range p.apps {
		if _, ok := app.listener.(*net.TCPListener); ok {
			pairs = append(pairs, portOf(app.listener), port)
		}
	}
	return strings.NewReplacer(append(pairs, p.dir, "")...).Replace(text)
}

func portOf(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }

func listenLocal(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

// refuse reserves a port without listening there, and returns it.
func refuse(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(os.NewSyscallError("socket", err))
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(os.NewSyscallError("bind", err))
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(os.NewSyscallError("getsockname", err))
	}
	return name.(*syscall.SockaddrInet4).Port
}
