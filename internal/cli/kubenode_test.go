package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups are the folders in which a cluster has its own control groups, one of each hierarchy.
type cgroups []string

// newCgroups makes control groups below those of this process. They need the hierarchies of cgroup
// v1.
func newCgroups(name string) (all cgroups, err error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		hierarchy, path, _ := strings.Cut(rest, ":")
		if hierarchy == "" {
			continue
		}
		parent := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(hierarchy, "name="), path)
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return all, errors.Join(fmt.Errorf("control groups: %w", err), all.remove())
		}
		all = append(all, dir)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if b, err := os.ReadFile(filepath.Join(parent, file)); err == nil {
				_ = os.WriteFile(filepath.Join(dir, file), b, 0)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("control groups: want those of version 1")
	}
	return all, nil
}

// remove removes the groups and those below them, whose processes have ended.
func (c cgroups) remove() (err error) {
	for late := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err = nil
		for _, dir := range c {
			_ = exec.Command("find", dir, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run()
			if _, statErr := os.Stat(dir); statErr == nil {
				err = errors.Join(err, fmt.Errorf("the control group %s is left", dir))
			}
		}
		if err == nil || time.Now().After(late) {
			return err
		}
	}
}

// within returns a command that moves itself to the groups and then replaces itself.
func (c cgroups) within(words ...string) *exec.Cmd {
	const script = `for dir in $GROUPS_OF_NODE; do echo $$ >"$dir/cgroup.procs" || exit 1; done; exec "$0" "$@"`
	cmd := exec.Command("sh", append([]string{"-c", script}, words...)...)
	cmd.Env = append(os.Environ(), "GROUPS_OF_NODE="+strings.Join(c, " "))
	return cmd
}

// keptSysctls are kernel settings that the kubelet writes. Each node has files of its own in their
// place.
func keptSysctls() []string {
	return []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}
}

// kubeNode is "kubenode READY": the first process of a node's namespaces. It prepares their mounts,
// creates a file once they are ready, and waits for orphans.
func kubeNode() {
	err := prepareNode()
	if err == nil {
		err = os.WriteFile(os.Args[1], nil, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubenode:", err)
		os.Exit(1)
	}
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); errors.Is(err, syscall.ECHILD) {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func prepareNode() error {
	for _, dir := range []string{"/run", "/var/log", "/var/lib", "/mnt"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("/sys: %w", err)
	}
	if err := errors.Join(mountCgroups(), loopbackUp(), os.MkdirAll("/run/sysctl", 0o755),
		os.WriteFile("/run/resolv.conf", nil, 0o644), os.MkdirAll("/var/lib/kubelet", 0o755)); err != nil {
		return err
	}
	for _, name := range keptSysctls() {
		original, kept := filepath.Join("/proc/sys", name), "/run/sysctl/"+strings.ReplaceAll(name, "/", "_")
		b, err := os.ReadFile(original)
		if err == nil {
			err = errors.Join(os.WriteFile(kept, b, 0o644), unix.Mount(kept, original, "", unix.MS_BIND, ""))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", original, err)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

// mountCgroups mounts all hierarchies of control groups, whose roots are the node's own groups.
func mountCgroups() error {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	const root = "/sys/fs/cgroup"
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("%s: %w", root, err)
	}
	for line := range strings.Lines(string(b)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		hierarchy, _, _ := strings.Cut(rest, ":")
		if hierarchy == "" {
			continue
		}
		dir, options := filepath.Join(root, hierarchy), hierarchy
		if name, ok := strings.CutPrefix(hierarchy, "name="); ok {
			dir, options = filepath.Join(root, name), "none,"+hierarchy
		}
		if err := errors.Join(os.Mkdir(dir, 0o755), unix.Mount("cgroup", dir, "cgroup", 0, options)); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}
