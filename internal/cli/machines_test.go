package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// machines are computers on one network: namespaces for networks, mounts and processes, connected
// to a bridge. The first one, the hub, holds the bridge and the server. The others
// have an sshd.
type machines struct {
	t     *testing.T
	dir   string   // files of all machines
	ip    string   // the program
	env   []string // of it
	hub   *machine
	hosts []*machine
}

// machine is one of the computers.
type machine struct {
	address string
	link    string // its veth link's end in the hub
	home    string // root's home directory, as seen by the test
	proc    *testkit.Process
	pid     int
}

// newMachines starts a hub and hosts, connected by veth links. It skips the test without root.
func newMachines(t *testing.T, hosts int) *machines {
	t.Helper()
	needNamespaces(t)
	m := &machines{t: t, dir: t.TempDir()}
	m.ip, m.env = programs.IP(t)
	keygen, keygenEnv := programs.SSH(t, "ssh-keygen")
	sshd, env := programs.SSHD(t)
	m.run(keygenEnv, keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(m.dir, "host"))
	m.run(keygenEnv, keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(m.dir, "user"))
	m.write("sshd_config", fmt.Sprintf("HostKey %[1]s/host\nPidFile none\nAuthorizedKeysFile %[1]s/user.pub\n"+
		"StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n", m.dir))
	m.write("ssh_config", fmt.Sprintf("Host *\n IdentityFile %[1]s/user\n IdentitiesOnly yes\n BatchMode yes\n User root\n"+
		" StrictHostKeyChecking no\n UserKnownHostsFile %[1]s/known\n LogLevel ERROR\n ConnectTimeout 20\n",
		m.dir))
	m.hub = m.start("10.77.0.1", nil, "sleep", "infinity")
	m.in(m.hub, m.ip, "link", "add", "br0", "type", "bridge")
	m.in(m.hub, m.ip, "address", "add", "10.77.0.1/24", "dev", "br0")
	m.in(m.hub, m.ip, "link", "set", "br0", "up")
	for i := range hosts {
		h := m.start(fmt.Sprintf("10.77.0.%d", 10+i), env, sshd, "-D", "-e", "-f", filepath.Join(m.dir, "sshd_config"))
		h.awaitListener(t)
		h.link = fmt.Sprintf("v%d", i)
		m.in(m.hub, m.ip, "link", "add", h.link, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(h.pid))
		m.in(m.hub, m.ip, "link", "set", h.link, "master", "br0", "up")
		m.in(h, m.ip, "address", "add", h.address+"/24", "dev", "eth0")
		m.in(h, m.ip, "link", "set", "eth0", "up")
		m.hosts = append(m.hosts, h)
	}
	return m
}

// start starts the first process of a machine, in namespaces of its own.
func (m *machines) start(address string, env []string, command ...string) *machine {
	m.t.Helper()
	home := filepath.Join(m.dir, "home-"+address)
	testkit.Must(m.t, os.Mkdir(home, 0o700))
	c := exec.Command("machine", append([]string{home}, command...)...)
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS,
	}
	log := testkit.Value(os.Create(filepath.Join(m.dir, "log-"+address)))(m.t)
	m.t.Cleanup(func() {
		log.Close()
		if b, err := os.ReadFile(log.Name()); m.t.Failed() && err == nil {
			m.t.Logf("%s: %s", address, b)
		}
	})
	c.Stdout, c.Stderr = log, log
	h := &machine{address: address, home: home, proc: testkit.Start(m.t, c), pid: c.Process.Pid}
	// Its namespaces are ready once it has replaced itself by the command.
	testkit.WaitFor(m.t, address+" to be ready", func() bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", h.pid))
		return err == nil && filepath.Base(exe) == filepath.Base(command[0]) || strings.Contains(exe, "coreutils")
	})
	return h
}

// awaitListener waits until sshd listens.
func (h *machine) awaitListener(t *testing.T) {
	t.Helper()
	testkit.WaitFor(t, "sshd on "+h.address, func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", h.pid))
		return err == nil && strings.Contains(string(b), "00000000:0016 ")
	})
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
	return loopbackUp()
}

func (m *machines) write(name, text string) {
	m.t.Helper()
	testkit.Must(m.t, os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600))
}

// run runs a program of this machine to its end.
func (m *machines) run(env []string, name string, args ...string) string {
	m.t.Helper()
	c := testkit.Command(m.t, name, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// in runs ip, or another program, in the network of a machine.
func (m *machines) in(h *machine, name string, args ...string) string {
	m.t.Helper()
	return m.run(m.env, "nsenter", append([]string{"--net", "--target", fmt.Sprint(h.pid), name}, args...)...)
}

// command returns a command in the network of the hub. Its ssh has the test's configuration.
func (m *machines) command(ctx context.Context, args ...string) *exec.Cmd {
	m.t.Helper()
	ssh := filepath.Join(m.dir, "bin", "ssh")
	testkit.Must(m.t, os.MkdirAll(filepath.Dir(ssh), 0o755))
	real, env := programs.SSH(m.t, "ssh")
	text := fmt.Sprintf("#!/bin/sh\nexec env %s %s -F %s/ssh_config \"$@\"\n", strings.Join(env, " "), real, m.dir)
	testkit.Must(m.t, os.WriteFile(ssh, []byte(text), 0o755))
	c := exec.CommandContext(ctx, "nsenter", append([]string{"--net", "--target", fmt.Sprint(m.hub.pid)}, args...)...)
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(ssh)+":"+os.Getenv("PATH"))
	c.Dir = m.dir
	return c
}

// agents returns the processes of agents on a host, as IDs outside of it.
func (m *machines) agents(h *machine) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	space := func(pid string) string { s, _ := os.Readlink("/proc/" + pid + "/ns/pid"); return s }
	own := space(fmt.Sprint(h.pid))
	for _, file := range all {
		pid := filepath.Base(filepath.Dir(file))
		line, err := os.ReadFile(file)
		if err != nil || space(pid) != own || !strings.HasSuffix(string(line), "/tare\x00agent\x00") {
			continue
		}
		n := 0
		if _, err := fmt.Sscan(pid, &n); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}

// nothingLeft checks that a host has no processes of the agent or its session, and no files except
// the cached program.
func (m *machines) nothingLeft(h *machine) {
	m.t.Helper()
	testkit.WaitFor(m.t, "the agents on "+h.address+" to end", func() bool { return len(m.agents(h)) == 0 })
	var left []string
	_ = filepath.WalkDir(h.home, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	})
	if len(left) != 1 || filepath.Base(left[0]) != "tare" {
		m.t.Errorf("%s: files %v, want only the cached program", h.address, left)
	}
}

// loopbackUp enables the loopback interface of a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// replace replaces this process by a command.
func replace(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, slices.Clone(args), os.Environ())
}
