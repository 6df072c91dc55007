package cli_test

import (
	"encoding/csv"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/load/hist"
	"github.com/tarehq/tare/load/report"
)

// machines are hosts that ssh reaches. They share this machine's network. Each has an sshd, and
// mounts and processes of its own.
type machines struct {
	t     *testing.T
	dir   string // files of all machines
	hosts []*machine
}

// machine is one of the hosts.
type machine struct {
	name string
	home string // root's home directory, as seen by the test
	pid  int    // of sshd
}

// newMachines starts hosts, and puts an ssh that knows them into the folder "bin". It skips the test
// without root.
func newMachines(t *testing.T, hosts int) *machines {
	t.Helper()
	needNamespaces(t)
	m := &machines{t: t, dir: t.TempDir()}
	keygen, env := programs.Installed(t, "ssh-keygen", "openssh-client")
	for _, name := range []string{"host", "user"} {
		c := testkit.Command(t, keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(m.dir, name))
		c.Env = append(os.Environ(), env...)
		testkit.Must(t, c.Run())
	}
	write(t, filepath.Join(m.dir, "sshd_config"), fmt.Sprintf("HostKey %[1]s/host\nPidFile none\n"+
		"AuthorizedKeysFile %[1]s/user.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"+
		"KbdInteractiveAuthentication no\n", m.dir))
	config := fmt.Sprintf("IdentityFile %[1]s/user\nIdentitiesOnly yes\nBatchMode yes\nUser root\n"+
		"StrictHostKeyChecking no\nUserKnownHostsFile %[1]s/known\nLogLevel ERROR\nConnectTimeout 20\n"+
		"HostName 127.0.0.1\n", m.dir)
	for i, address := range programs.FreeAddresses(t, hosts) {
		m.hosts = append(m.hosts, m.start(fmt.Sprint("host", i), address))
		config += fmt.Sprintf("Host host%d\n Port %d\n", i, portOf(t, address))
	}
	write(t, filepath.Join(m.dir, "ssh_config"), config)
	ssh, env := programs.Installed(t, "ssh", "openssh-client")
	wrapper := filepath.Join(m.dir, "bin", "ssh")
	testkit.WriteFile(t, wrapper, fmt.Sprintf("#!/bin/sh\nexec env %s %s -F %s/ssh_config \"$@\"\n",
		strings.Join(env, " "), ssh, m.dir))
	testkit.Must(t, os.Chmod(wrapper, 0o755))
	return m
}

// start starts the sshd of a host, in namespaces of its own.
func (m *machines) start(name, address string) *machine {
	m.t.Helper()
	home := filepath.Join(m.dir, "home-"+name)
	testkit.Must(m.t, os.Mkdir(home, 0o700))
	sshd, env := programs.Installed(m.t, "sshd", "openssh-server")
	c := exec.Command("machine", home, sshd, "-D", "-e", "-f", filepath.Join(m.dir, "sshd_config"),
		"-o", "ListenAddress="+address)
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	log := new(testkit.Log)
	c.Stdout, c.Stderr = log, log
	testkit.Start(m.t, c)
	m.t.Cleanup(func() {
		if m.t.Failed() {
			m.t.Logf("%s: %s", name, log)
		}
	})
	testkit.WaitFor(m.t, "sshd of "+name, func() bool {
		nc, err := net.Dial("tcp", address)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	return &machine{name: name, home: home, pid: c.Process.Pid}
}

// machineProgram is "machine HOME COMMAND...": it prepares the namespaces of a
// machine and runs its first process.
func machineProgram() {
	err := prepareMachine(os.Args[1])
	if err == nil {
		err = replace(os.Args[2:])
	}
	fmt.Fprintln(os.Stderr, "machine:", err)
	os.Exit(1)
}

func prepareMachine(home string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, step := range []struct{ source, target, kind string }{
		{"proc", "/proc", "proc"}, {"tmpfs", "/run", "tmpfs"},
	} {
		if err := unix.Mount(step.source, step.target, step.kind, 0, ""); err != nil {
			return fmt.Errorf("%s: %w", step.target, err)
		}
	}
	if err := os.Mkdir("/run/sshd", 0o755); err != nil {
		return err
	}
	if err := unix.Mount(home, "/root", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("/root: %w", err)
	}
	// sshd needs a user of its own, and a root whose account is not locked.
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:74:65534::/run/sshd:/usr/sbin/nologin\nnobody:x:65534:65534::/:/bin/false\n",
		"shadow": "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n",
	} {
		file := "/run/" + name
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, "/etc/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/etc/%s: %w", name, err)
		}
	}
	return nil
}

// agents returns the number of processes of agents on a host.
func (m *machines) agents(h *machine) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	space := func(pid string) string { s, _ := os.Readlink("/proc/" + pid + "/ns/mnt"); return s }
	own := space(fmt.Sprint(h.pid))
	for _, file := range all {
		pid := filepath.Base(filepath.Dir(file))
		line, err := os.ReadFile(file)
		if err == nil && space(pid) == own && strings.HasSuffix(string(line), "/tare\x00agent\x00") {
			n++
		}
	}
	return n
}

// nothingLeft checks that a host has no processes of the agent or its session, and no files except
// the cached program.
func (m *machines) nothingLeft(h *machine) {
	m.t.Helper()
	testkit.WaitFor(m.t, "the agents on "+h.name+" to end", func() bool { return m.agents(h) == 0 })
	var left []string
	_ = filepath.WalkDir(h.home, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	})
	if len(left) != 1 || filepath.Base(left[0]) != "tare" {
		m.t.Errorf("%s: files %v, want only the cached program", h.name, left)
	}
}

// read reads a JSON result.
func (m *machines) read(name string) *report.Run {
	m.t.Helper()
	return testkit.Value(report.Read(strings.NewReader(read(m.t, filepath.Join(m.dir, name)))))(m.t)
}

// samples returns the histograms of the times since due and since sent in a file of samples.
func (m *machines) samples(name string) (due, sent *hist.Histogram) {
	m.t.Helper()
	rows := testkit.Value(csv.NewReader(strings.NewReader(read(m.t, filepath.Join(m.dir, name)))).ReadAll())(m.t)
	due, sent = hist.New(), hist.New()
	for _, row := range rows[1:] {
		at := func(i int) time.Duration {
			return time.Duration(testkit.Value(strconv.ParseInt(row[i], 10, 64))(m.t))
		}
		due.Record(at(4) - at(1))
		sent.Record(at(4) - at(2))
	}
	return due, sent
}

// Hosts that ssh reaches generate one load, whose percentiles are those of all samples. The program
// is copied once, and nothing else stays.
func TestLoadFromManyHosts(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	m := newMachines(t, 2)
	server := httptest.NewServer(http.HandlerFunc(greet))
	defer server.Close()
	for range 2 { // the second time the program is there
		const requests = 2000
		c := testkit.Command(t, tare, "load", server.URL, "-c", "20", "--rate", "2000", "-n", fmt.Sprint(requests),
			"--on", "host0,host1", "--json=run.json", "--samples", "samples.csv", "--html", "run.html", "--csv", "run.csv")
		c.Dir, c.Env = m.dir, append(os.Environ(), "PATH="+filepath.Join(m.dir, "bin")+":"+os.Getenv("PATH"))
		testkit.Succeeds(t, c)
		run := m.read("run.json")
		due, sent := m.samples("samples.csv")
		if run.Requests != requests || due.Count() != requests || len(run.Parts) != 2 || run.Connections != 20 {
			t.Fatalf("%d requests, %d samples, %d parts", run.Requests, due.Count(), len(run.Parts))
		}
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
			if run.Latency.Quantile(q) != due.Quantile(q) || run.Service.Quantile(q) != sent.Quantile(q) {
				t.Errorf("quantile %v: %v and %v, of the samples %v and %v", q, run.Latency.Quantile(q),
					run.Service.Quantile(q), due.Quantile(q), sent.Quantile(q))
			}
		}
		page := read(t, filepath.Join(m.dir, "run.html"))
		testkit.Contains(t, page, "<h2>Agents</h2>", "the page")
		for i, p := range run.Parts {
			if p.Requests != uint64(requests*p.Connections/20) || p.Name != m.hosts[i].name || p.ClockError == 0 {
				t.Errorf("%+v", p)
			}
			testkit.Contains(t, page, p.Name, "the page")
		}
	}
	for _, h := range m.hosts {
		m.nothingLeft(h)
	}
}
