//go:build linux

package corpus_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
)

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

func nginxFront(tool *contender.NginxTool, conf string) *front {
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
		file, err := l.File()
		testkit.Must(t, err)
		defer file.Close()
		f.cmd.ExtraFiles = append(f.cmd.ExtraFiles, file)
	}
	f.cmd.Env = append(f.cmd.Env, f.env(len(f.cmd.ExtraFiles)))
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
	select {
	case <-f.done:
	case <-time.After(patience):
		t.Fatalf("%s did not exit", f.name)
	}
	if !f.cmd.ProcessState.Success() {
		t.Errorf("%s: %s", f.name, f.cmd.ProcessState)
	}
}

// readLogs returns the access logs without times, sorted: a line may be written during the next
// request.
func readLogs(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "var/log/nginx/*"))
	testkit.Must(t, err)
	var b strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		if strings.Contains(filepath.Base(file), "error") {
			continue
		}
		lines := slices.Sorted(strings.Lines(loggedTime.ReplaceAllString(string(text), "[time]")))
		fmt.Fprintf(&b, "%s:\n%s", filepath.Base(file), strings.Join(lines, ""))
	}
	return b.String()
}

// readErrorLogs returns the error logs.
func readErrorLogs(dir string) string {
	var all string
	files, _ := filepath.Glob(filepath.Join(dir, "var/log/nginx/*error*"))
	for _, file := range files {
		b, _ := os.ReadFile(file)
		all += string(b)
	}
	return all
}

var loggedTime = regexp.MustCompile(`\[\d\d/[A-Z][a-z]{2}/\d{4}[^]]*\]`)

// writeCertificates writes each certificate that the site's nginx.conf refers to.
func writeCertificates(t *testing.T, s *site, dir string) {
	t.Helper()
	for _, m := range certificate.FindAllStringSubmatch(s.file("nginx.conf"), -1) {
		name := strings.TrimSuffix(filepath.Base(m[1]), filepath.Ext(m[1]))
		makeCertificate(t, filepath.Join(dir, m[1]),
			filepath.Join(dir, strings.TrimSuffix(m[1], filepath.Ext(m[1]))+".key"), name)
	}
}

var certificate = regexp.MustCompile(`ssl_certificate\s+(/\S+);`)
