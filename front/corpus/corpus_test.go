//go:build linux

package corpus_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tarehq/tare/internal/cli"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

func TestMain(m *testing.M) {
	testscript.Main(testkit.Tests{M: m}, map[string]func(){"tare": func() { os.Exit(cli.Main()) }})
}

// nginx and tare send the same responses, applications behind them receive the same requests, and
// both write the same logs.
func TestCorpusGivesNginxsResponses(t *testing.T) {
	nginx := programs.Nginx(t)
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sites: %v", err)
	}
	for _, file := range files {
		s := readSite(t, file)
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.compare(t, programs.NginxEtc(nginx), func(conf string) *front { return nginxFront(nginx, conf) }, tareFront)
		})
	}
}

// compare runs the fronts one after the other, with the same ports, and compares their responses.
func (s *site) compare(t *testing.T, etc string, fronts ...func(conf string) *front) {
	dir := testkit.ShortDir(t)
	testkit.Must(t, os.Chmod(dir, 0o755)) // workers run as another user
	p := s.assign(t, dir)
	var responses [][]*response
	var logs []string
	for _, make_ := range fronts {
		s.put(t, dir, p.substitute)
		linkIncludes(t, etc, dir)
		writeCertificates(t, s, dir)
		t.Run(strings.Repeat("I", len(responses)+1), func(t *testing.T) {
			for _, app := range p.apps {
				app.open(t, dir)
			}
			f := make_(filepath.Join(dir, "etc/nginx/nginx.conf"))
			f.start(t, p)
			responses = append(responses, s.sendAll(t, p, f))
			if testing.Verbose() {
				s.show(t, p, responses[len(responses)-1])
			}
			f.end(t)
			keepCounters(t, dir)
			logs = append(logs, readLogs(t, dir))
			if t.Failed() || testing.Verbose() {
				t.Logf("%s: output:\n%s\n%s", f.name, f.output.String(), readErrorLogs(dir))
			}
		})
		if t.Failed() {
			return
		}
	}
	for i, r := range s.requests {
		difference(t, s, r, p, responses[0][i], responses[1][i])
	}
	if s.differs["logs"] == "" && logs[0] != logs[1] {
		t.Errorf("logs:\n nginx:\n%s\n tare:\n%s", p.restore(logs[0]), p.restore(logs[1]))
	}
}

// sendAll sends all requests to a front.
func (s *site) sendAll(t *testing.T, p *ports, f *front) []*response {
	var responses []*response
	for _, r := range s.requests {
		select {
		case <-f.done:
			t.Fatalf("%s exited before %q:\n%s", f.name, r.title, p.restore(f.output.String()))
		default:
		}
		if r.waits > 0 {
			time.Sleep(time.Duration(r.waits) * time.Second) // the passing time is the subject
		}
		r.change(t, p.dir)
		a := send(r, p.address(r))
		for _, app := range p.apps {
			for _, text := range app.takeReceived() {
				a.received = append(a.received, app.name+": "+text)
			}
		}
		responses = append(responses, a)
	}
	return responses
}

// show logs the responses of a front.
func (s *site) show(t *testing.T, p *ports, responses []*response) {
	for i, r := range s.requests {
		t.Logf("%s: %s %s://%s%s\n\t%s", r.title, r.method, r.scheme, r.host, r.target,
			strings.Join(lines(s, r, p, responses[i], responses[i]), "\n\t"))
	}
}

// address returns the address of a request: its port is in the URL.
func (p *ports) address(r *request) string {
	_, port, err := net.SplitHostPort(r.host)
	if err != nil {
		port = map[string]string{"http": "80", "https": "443"}[r.scheme]
	}
	if l := p.listeners[port]; l != nil {
		return l.Addr().String()
	}
	return "port " + port + ", which the configuration does not name"
}

// linkIncludes links nginx's own files to where configurations include them from.
func linkIncludes(t *testing.T, etc, dir string) {
	t.Helper()
	for _, name := range []string{"mime.types", "fastcgi_params", "fastcgi.conf", "proxy_params"} {
		if b, err := os.ReadFile(filepath.Join(etc, name)); err == nil {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "etc/nginx", name), b, 0o644))
		}
	}
}

// front is nginx or tare as a process that inherits its sockets.
type front struct {
	name string
	cmd  *exec.Cmd
	// env lists the inherited descriptors.
	env    func(count int) string
	output bytes.Buffer
	done   <-chan struct{}
}

const firstPassed = 3

func nginxFront(tool *contender.Program, conf string) *front {
	dir := filepath.Dir(filepath.Dir(filepath.Dir(conf)))
	f := &front{name: "nginx", cmd: exec.Command(tool.Bin, "-p", dir, "-c", conf, "-e", "stderr", "-g", "daemon off;")}
	f.cmd.Env = slices.Concat(os.Environ(), tool.Env)
	f.env = func(count int) string {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, "%d;", firstPassed+i)
		}
		return "NGINX=" + b.String()
	}
	return f
}

func tareFront(conf string) *front {
	dir := filepath.Dir(filepath.Dir(filepath.Dir(conf)))
	f := &front{name: "tare", cmd: exec.Command("sh", "-c", `LISTEN_PID=$$ exec tare serve -p "$0" -c "$1"`, dir, conf)}
	// otherwise the race detector waits for a second at exit
	f.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	f.env = func(count int) string { return fmt.Sprintf("LISTEN_FDS=%d", count) }
	return f
}

// start starts the front, and returns when it serves.
func (f *front) start(t *testing.T, p *ports) {
	t.Helper()
	for _, l := range p.listeners {
		file := testkit.Value(l.File())(t)
		defer file.Close()
		f.cmd.ExtraFiles = append(f.cmd.ExtraFiles, file)
	}
	f.cmd.Env = append(f.cmd.Env, f.env(len(f.cmd.ExtraFiles)))
	// it writes its counters of coverage as another user
	if counters := filepath.Join(p.dir, "counters"); os.Getenv("GOCOVERDIR") != "" {
		testkit.Must(t, os.MkdirAll(counters, 0o777))
		testkit.Must(t, os.Chmod(counters, 0o777))
		f.cmd.Env = append(f.cmd.Env, "GOCOVERDIR="+counters)
	}
	f.cmd.Stdout, f.cmd.Stderr = &f.output, &f.output
	f.done = testkit.Start(t, f.cmd).Done()
	// The sockets accept connections before anybody serves them, so the pid file counts.
	pid := filepath.Join(p.dir, "run/nginx.pid")
	for late := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(pid); err == nil {
			return
		}
		select {
		case <-f.done:
			t.Fatalf("%s exited:\n%s", f.name, p.restore(f.output.String()))
		default:
		}
		if time.Now().After(late) {
			t.Fatalf("%s did not write its pid file", f.name)
		}
	}
}

// end shuts the front down gracefully.
func (f *front) end(t *testing.T) {
	t.Helper()
	_ = f.cmd.Process.Signal(syscall.SIGQUIT)
	testkit.Receive(t, f.done, "the exit of", f.name)
	testkit.Equal(t, f.cmd.ProcessState.Success(), true, f.name, f.cmd.ProcessState)
}

// keepCounters moves the front's counters of coverage to those of the test.
func keepCounters(t *testing.T, dir string) {
	t.Helper()
	files := testkit.Value(filepath.Glob(filepath.Join(dir, "counters/*")))(t)
	for _, name := range files {
		testkit.Must(t, os.Rename(name, filepath.Join(os.Getenv("GOCOVERDIR"), filepath.Base(name))))
	}
}

// readLogs returns the access logs without times, sorted: a line may be written during the next
// request.
func readLogs(t *testing.T, dir string) string {
	t.Helper()
	files := testkit.Value(filepath.Glob(filepath.Join(dir, "var/log/nginx/*")))(t)
	var b strings.Builder
	for _, file := range files {
		text := testkit.Value(os.ReadFile(file))(t)
		if strings.Contains(filepath.Base(file), "error") {
			continue
		}
		lines := slices.Sorted(strings.Lines(loggedTime.ReplaceAllString(string(text), "[time]")))
		fmt.Fprintf(&b, "%s:\n%s", filepath.Base(file), strings.Join(lines, ""))
	}
	return b.String()
}

func readErrorLogs(dir string) string {
	var all string
	files, _ := filepath.Glob(filepath.Join(dir, "var/log/nginx/*error*"))
	for _, file := range files {
		b, _ := os.ReadFile(file)
		all += string(b)
	}
	return all
}

var loggedTime = regexp.MustCompile(`\b\d\.\d{3}\b|\[\d\d/[A-Z][a-z]{2}/\d{4}[^]]*\]`)

// writeCertificates writes each certificate that the site's nginx.conf refers to, and its key.
func writeCertificates(t *testing.T, s *site, dir string) {
	t.Helper()
	for _, m := range certificate.FindAllStringSubmatch(s.file("nginx.conf"), -1) {
		path := filepath.Join(dir, strings.TrimSuffix(m[1], filepath.Ext(m[1])))
		name := filepath.Base(path)
		cert, key := tlstest.SelfSign(t, x509.Certificate{Subject: pkix.Name{CommonName: name},
			DNSNames: []string{name}})
		testkit.WriteFile(t, filepath.Join(dir, m[1]), string(cert))
		testkit.WriteFile(t, path+".key", string(key))
	}
}

var certificate = regexp.MustCompile(`ssl_certificate\s+(/\S+);`)
