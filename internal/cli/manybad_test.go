package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A full disk on a host is an error that names it, and no part of the program stays there.
func TestManyHostsReportAFullDisk(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	m := newMachines(t, 2, nil)
	url := m.serveHello()
	full := m.hosts[1]
	m.mount(full, "/root/.cache", "size=1m")
	r := m.load(tare, url, "-c", "4", "-n", "100", "--on", m.on())
	if code := r.wait(t); code != 1 || !strings.Contains(r.err.String(),
		full.address+": cannot copy the program there: ") ||
		!strings.Contains(r.err.String(), "No space left on device") {
		t.Errorf("exit code %d: %s%s", code, &r.err, &r.out)
	}
	files := strings.Fields(m.in(full, "nsenter", "--mount", "--target", fmt.Sprint(full.pid), "find", "/root/.cache",
		"-type", "f"))
	if len(files) > 0 {
		t.Errorf("left on the full disk: %v", files)
	}
	if pids := m.agents(full); len(pids) > 0 {
		t.Errorf("agents %v", pids)
	}
	m.nothingLeft(m.hosts[0])
}

// A host whose sshd does not respond is named, and an interrupt ends the command at once.
func TestManyHostsThatHangAtLogin(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	m := newMachines(t, 2, nil)
	url := m.serveHello()
	hanging := m.hosts[1]
	m.signal(hanging.pid, syscall.SIGSTOP)
	defer m.signal(hanging.pid, syscall.SIGCONT)
	r := m.load(tare, url, "-c", "4", "-d", "60s", "--on", m.on())
	for late := time.Now().Add(patience); !strings.Contains(r.err.String(), "waiting for "+hanging.address); {
		if time.Sleep(20 * time.Millisecond); time.Now().After(late) {
			t.Fatalf("the hanging host is not named: %s", r.err.String())
		}
	}
	m.signal(r.cmd.Process.Pid, syscall.SIGINT)
	if code := r.wait(t); code != 130 {
		t.Errorf("exit code %d: %s", code, &r.err)
	}
	m.nothingLeft(m.hosts[0])
	if pids := m.agents(hanging); len(pids) > 0 {
		t.Errorf("agents %v", pids)
	}
}

// A host may be given several times: each time it has another agent.
func TestManyHostsMayBeTheSame(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	m := newMachines(t, 1, nil)
	url := m.serveHello()
	twice := m.hosts[0].address
	r := m.load(tare, url, "-c", "4", "-n", "400", "--on", twice+","+twice+",root@"+twice, "--json=run.json")
	if code := r.wait(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, &r.err)
	}
	names := ""
	run := m.read("run.json")
	for _, p := range run.Parts {
		names += p.Name + " "
	}
	if want := twice + "-1 " + twice + "-2 root@" + twice + " "; names != want || run.Requests != 400 {
		t.Errorf("%s, want %s: %d requests", names, want, run.Requests)
	}
	m.nothingLeft(m.hosts[0])
}

// A second interrupt ends the command although an agent hangs. Agents end with their connection.
func TestManyHostsAndTwoInterrupts(t *testing.T) {
	t.Parallel()
	tare := filepath.Join(usersTare(t), "tare")
	m := newMachines(t, 2, nil)
	url := m.serveHello()
	const connections = 4
	r := m.load(tare, url, "-c", fmt.Sprint(connections), "-d", "10m", "--on", m.on())
	m.awaitConnections(r, func(n int) bool { return n >= connections })
	frozen := m.awaitAgent(m.hosts[1], r)
	m.signal(frozen, syscall.SIGSTOP)
	m.signal(r.cmd.Process.Pid, syscall.SIGINT)
	// The kernel joins signals that wait. The other agent stops when the first one was received.
	m.awaitConnections(r, func(n int) bool { return n < connections })
	m.signal(r.cmd.Process.Pid, syscall.SIGINT)
	if code := r.wait(t); code == 0 {
		t.Error("interrupted twice, it succeeds")
	}
	m.nothingLeft(m.hosts[0])
	m.signal(frozen, syscall.SIGCONT)
	m.nothingLeft(m.hosts[1])
}

// awaitConnections waits until the server on the hub has a number of connections that suits.
func (m *machines) awaitConnections(r *manyRun, suits func(n int) bool) {
	m.t.Helper()
	established := regexp.MustCompile(`:1F90 [0-9A-F]+:[0-9A-F]+ 01 `) // of port 8080
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", m.hub.pid))
		if err == nil && suits(len(established.FindAll(b, -1))) {
			return
		}
		if time.Now().After(late) {
			m.t.Fatalf("the server has another number of connections: %v, %s; %s", err, b, &r.err)
		}
	}
}

// mount mounts a small disk on a folder of a machine.
func (m *machines) mount(h *machine, folder, options string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Join(h.home, strings.TrimPrefix(folder, "/root/")), 0o700); err != nil {
		m.t.Fatal(err)
	}
	m.in(h, "nsenter", "--mount", "--target", fmt.Sprint(h.pid), "mount", "-t", "tmpfs", "-o", options, "tmpfs", folder)
}
