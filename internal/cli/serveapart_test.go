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
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/testkit"
)

// apart DIR COMMAND... runs a command in the current namespaces: with its own /proc, network, and a
// disk of 64 KB at DIR.
func apart() {
	err := prepareApart(os.Args[1])
	if err == nil {
		err = replace(os.Args[2:])
	}
	fmt.Fprintln(os.Stderr, "apart:", err)
	os.Exit(1)
}

func prepareApart(disk string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k,mode=0755,uid="+someUser); err != nil {
		return err
	}
	return testkit.LoopbackUp()
}

// replace replaces this process by a command.
func replace(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, slices.Clone(args), os.Environ())
}

// diskNextTo creates the folder that becomes a disk, next to another.
func diskNextTo(t *testing.T, dir string) string {
	t.Helper()
	disk := filepath.Join(filepath.Dir(dir), "disk")
	testkit.Must(t, os.Mkdir(disk, 0o755))
	return disk
}

// serveApart starts a server in its own network, mount and process namespaces.
func serveApart(t *testing.T, disk string, args ...string) *served {
	t.Helper()
	return startServed(t, apartCommand(disk, append([]string{"tare", "serve"}, args...)...))
}

// apartCommand returns a command that becomes a server, as that of serveApart.
func apartCommand(disk string, args ...string) *exec.Cmd {
	cmd := exec.Command("apart", append([]string{disk}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Credential: &syscall.Credential{Uid: 0, Gid: 0, Groups: []uint32{0, 4, 27}}, // some to be dropped
	}
	return cmd
}

// needNamespaces skips a test if namespaces are not permitted, and fails it if they should be.
func needNamespaces(t *testing.T) {
	t.Helper()
	cmd := testkit.Command(t, "true")
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	if err := cmd.Run(); err != nil || os.Geteuid() != 0 {
		testkit.Missing(t, "this needs root and namespaces: ", err)
	}
}

// within returns a client that dials in the network namespace of a process.
func within(t *testing.T, pid int) *http.Client {
	t.Helper()
	return client(t, func(_ context.Context, network, addr string) (conn net.Conn, err error) {
		err = inNamespace(pid, "net", func() (err error) { conn, err = net.Dial(network, addr); return err })
		return conn, err
	})
}

// inNamespace calls f in a namespace of a process.
func inNamespace(pid int, name string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		if err == nil {
			defer ns.Close()
			err = unix.Unshare(unix.CLONE_FS) // otherwise the namespace of mounts cannot be changed
		}
		if err == nil {
			err = unix.Setns(int(ns.Fd()), 0)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

const (
	someUser  = "64123" // of no user
	someGroup = "64124"
)

// wantStatus checks a line of the status of every thread of a process.
func wantStatus(t *testing.T, pid int, name, want string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d threads, %v", len(files), err)
	}
	line := regexp.MustCompile(`(?m)^` + name + `:(.*)$`)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended, the latter after the file was opened
		}
		if m := line.FindSubmatch(b); m == nil || strings.Join(strings.Fields(string(m[1])), " ") != want {
			t.Errorf("%s: %q, want %s %s", file, m, name, want)
		}
	}
}

// A server started as root opens a port, a log and keys that only root may open. Then it serves as
// another user for good, with all threads, in a chroot.
func TestServerStartedAsRootBecomesTheUser(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	dir := site(t)
	secret := filepath.Join(filepath.Dir(dir), "secret")
	testkit.Must(t, os.Mkdir(secret, 0o700))
	cert, key := filepath.Join(secret, "cert.pem"), filepath.Join(secret, "key.pem")
	putCertificate(t, cert, key, 1)
	testkit.Must(t, os.Symlink("/etc", filepath.Join(dir, "out")))
	disk := diskNextTo(t, dir)
	s := serveApart(t, disk, "--listen", "127.0.0.1:443", "--listen", "127.0.0.1:80", "-r", "-u", someUser, "-g",
		someGroup,
		"--cert", cert, "-k", key, "--access-log", filepath.Join(disk, "access.log"), dir)
	s.await("on https://127.0.0.1:443/\n")
	s.await(`running as 64123 \(64123\), group 64124 \(64124\), no other groups; chroot to the folder`)
	s.await("64123 cannot reload it, so a new one requires a restart: .*permission denied")
	pid := s.cmd.Process.Pid
	wantStatus(t, pid, "Uid", "64123 64123 64123 64123")
	wantStatus(t, pid, "Gid", "64124 64124 64124 64124")
	wantStatus(t, pid, "Groups", "")
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		wantStatus(t, pid, set, "0000000000000000")
	}
	if root, err := os.Readlink(fmt.Sprintf("/proc/%d/root", pid)); err != nil || root != dir {
		t.Errorf("its root is %q, want %q: %v", root, dir, err)
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || cwd != dir {
		t.Errorf("it works in %q: %v", cwd, err)
	}
	if strings.Contains(s.stderr(), "Landlock") {
		wantStatus(t, pid, "NoNewPrivs", "1")
	}
	wantOnlyKnownFolders(t, pid, dir, secret, disk)
	c := within(t, pid)
	insecure(c)
	get(t, c, "https://127.0.0.1:443", "hello")
	get(t, c, "https://127.0.0.1:80", "hello")
	if resp, err := c.Get("https://127.0.0.1/out/passwd"); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("%v, %v", resp, err)
	}
	s.stop(syscall.SIGTERM)
}

// wantOnlyKnownFolders checks that the only open folders are these.
func wantOnlyKnownFolders(t *testing.T, pid int, known ...string) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(links) == 0 {
		t.Fatal(links, err)
	}
	for _, link := range links {
		info, err := os.Stat(link)
		if err != nil || !info.IsDir() {
			continue
		}
		target, err := os.Readlink(link)
		if err != nil || !slices.Contains(known, target) {
			t.Errorf("%s is the folder %s, %v", link, target, err)
		}
	}
}

// In a chroot, the server finds a renewed certificate and a new log through open folders, which
// Landlock prevents it from leaving.
func TestChrootedServerReopensLogAndCertificate(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	dir := site(t)
	disk, keys, live := filepath.Join(filepath.Dir(dir), "disk"), filepath.Join(filepath.Dir(dir), "keys"),
		filepath.Join(filepath.Dir(dir), "live")
	for _, d := range []string{disk, keys, live} {
		testkit.Must(t, os.Mkdir(d, 0o755))
	}
	cert, key := filepath.Join(keys, "cert.pem"), filepath.Join(keys, "key.pem")
	putCertificate(t, cert, key, 1)
	for _, name := range []string{"cert.pem", "key.pem"} {
		testkit.Must(t, os.Symlink("../keys/"+name, filepath.Join(live, name)))
	}
	log := filepath.Join(disk, "access.log")
	s := serveApart(t, disk, "--listen", "127.0.0.1:443", "-r", "-u", someUser, "-g", someGroup, "--access-log", log,
		"--cert", filepath.Join(live, "cert.pem"), "-k", filepath.Join(live, "key.pem"), dir)
	s.await("access.log: SIGUSR1 reopens it")
	if !strings.Contains(s.stderr(), "sandboxed by Landlock") {
		testkit.Missing(t, "this kernel has no Landlock")
	}
	s.await("SIGUSR1 reopens it")
	s.await("reloaded when it changes")
	pid := s.cmd.Process.Pid
	c := within(t, pid)
	insecure(c)
	get(t, c, "https://127.0.0.1/?first", "hello")
	amongMounts(t, pid, func() error { return os.Rename(log, log+".1") })
	s.signal(syscall.SIGUSR1)
	s.await("logs: reopened")
	get(t, c, "https://127.0.0.1/?second", "hello")
	putCertificate(t, cert, key, 2)
	s.await("certificate: (serving a new one|a new one is served)")
	c.CloseIdleConnections()
	resp := testkit.Value(c.Get("https://127.0.0.1/"))(t)
	resp.Body.Close()
	testkit.Equal(t, resp.TLS.PeerCertificates[0].SerialNumber.Int64(), 2, "certificate")
	var logs [2][]byte
	file, err := os.Open(descriptorOf(t, pid, "access.log")) // is the new one
	testkit.Must(t, err)
	defer file.Close()
	amongMounts(t, pid, func() (err error) { logs[0], err = os.ReadFile(log + ".1"); return err })
	s.stop(syscall.SIGTERM)
	logs[1] = testkit.Value(io.ReadAll(file))(t)
	testkit.Contains(t, string(logs[0]), "?first", "the old log")
	testkit.Contains(t, string(logs[1]), "?second", "the new log")
}

// Without Landlock, no folder outside the chroot stays open, and the server prints the
// consequences.
func TestChrootWithoutLandlockKeepsNoFolderOpen(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	dir := site(t)
	disk := diskNextTo(t, dir)
	s := serveApart(t, disk, "--listen", "127.0.0.1:80", "-r", "-u", someUser, "-g", someGroup, "--sandbox", "off",
		"--access-log", filepath.Join(disk, "access.log"), dir)
	s.await("64123 cannot reopen it, so rotate it by copying and truncating: .*the directory has been closed")
	wantOnlyKnownFolders(t, s.cmd.Process.Pid, dir)
	wantStatus(t, s.cmd.Process.Pid, "NoNewPrivs", "0")
	get(t, within(t, s.cmd.Process.Pid), "http://127.0.0.1", "hello")
	s.signal(syscall.SIGUSR1)
	s.await("logs: reopening failed, still writing an old file: .*the directory has been closed")
}

// A full disk loses only log lines. When there is space again, logging continues with a line that
// counts the lost ones.
func TestFullDiskLosesOnlyLogLines(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	dir := site(t)
	disk := diskNextTo(t, dir)
	s := serveApart(t, disk, "--listen", "127.0.0.1:80", "-u", someUser, "-g", someGroup,
		"--access-log", filepath.Join(disk, "access.log"), dir)
	s.await("access.log: SIGUSR1 reopens it")
	c := within(t, s.cmd.Process.Pid)
	get(t, c, "http://127.0.0.1", "hello")
	flood(t, c, "http://127.0.0.1", enough)
	s.await("access.log: write .*access.log: no space left on device; lines wait")
	get(t, c, "http://127.0.0.1", "hello")
	file := testkit.Value(os.Open(descriptorOf(t, s.cmd.Process.Pid, "access.log")))(t)
	defer file.Close()
	enlarge(t, s.cmd.Process.Pid, disk)
	lost := s.await(`access.log: writing lines again; (\d+) were lost`)[1]
	if lost == "0" {
		t.Error("none were lost: the disk was not full")
	}
	lines, found := bufio.NewScanner(file), false
	for lines.Scan() {
		found = found || strings.Contains(lines.Text(), lost+" lines lost: ") &&
			strings.Contains(lines.Text(), "no space left on device")
	}
	if !found {
		t.Errorf("no line of the log says that %s are missing", lost)
	}
}

// enlarge grows the disk of a process, which looks to it like deleted files.
func enlarge(t *testing.T, pid int, disk string) {
	t.Helper()
	amongMounts(t, pid, func() error { return unix.Mount("", disk, "", unix.MS_REMOUNT, "size=32m") })
}

// amongMounts calls f in the mount namespace of a process.
func amongMounts(t *testing.T, pid int, f func() error) {
	t.Helper()
	testkit.Must(t, inNamespace(pid, "mnt", f))
}

// descriptorOf returns the descriptor by which a process has a file open.
func descriptorOf(t *testing.T, pid int, name string) string {
	t.Helper()
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && filepath.Base(target) == name {
			return link
		}
	}
	t.Fatalf("%s is not open", name)
	return ""
}

// An inherited open folder would be a way out of the chroot, so nothing is served.
func TestInheritedFolderPreventsChroot(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	dir := site(t)
	disk := diskNextTo(t, dir)
	cmd := apartCommand(disk, "tare", "serve", "--listen", "127.0.0.1:80", "-r", "-u", someUser, "-g", someGroup, dir)
	root := testkit.Value(os.Open("/"))(t)
	defer root.Close()
	cmd.ExtraFiles = []*os.File{root}
	s := startServed(t, cmd)
	s.await(`privileges were not dropped: descriptor 3 is the directory "/", which leads out of the root`)
	testkit.Equal(t, s.wait(), 1, "exit code")
}
