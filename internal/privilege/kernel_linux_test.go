package privilege

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Verification reads the state of the kernel: this process has not given up anything, and is found
// so.
func TestUnchangedProcessFailsVerification(t *testing.T) {
	k := new(linux)
	testkit.Must(t, k.openProc())
	defer k.closeProc()
	threads, err := k.threads()
	if err != nil || len(threads) < 2 {
		t.Fatalf("%v, %v", threads, err)
	}
	for _, th := range threads {
		testkit.Equal(t, th.uids[1], os.Geteuid(), "user of thread", th.id)
		testkit.Equal(t, th.gids[1], os.Getegid(), "group of thread", th.id)
	}
	testkit.Error(t, k.confined(folders(t)), "", "a process that is not confined")
	dir := testkit.Value(os.Open(t.TempDir()))(t)
	defer dir.Close()
	dirs, err := k.openDirs()
	if err != nil || !slices.ContainsFunc(dirs, func(d openDir) bool {
		return d.path == dir.Name() &&
			d.fd == int(dir.Fd())
	}) {
		t.Errorf("%+v, %v", dirs, err)
	}
	if slices.ContainsFunc(dirs, func(d openDir) bool { return strings.HasPrefix(d.path, "/proc") }) {
		t.Errorf("its own: %+v", dirs)
	}
}

func TestParseStatusReadsEveryLine(t *testing.T) {
	const status = "Name:\ta b\nPid:\t7\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n" +
		"CapInh:\t0000000000000001\nCapPrm:\t0000000000000002\nCapEff:\t0000000000000004\n" +
		"CapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000008\nNoNewPrivs:\t1\n"
	got, err := parseStatus(status)
	want := thread{id: 7, uids: [4]int{1, 2, 3, 4}, gids: [4]int{5, 6, 7, 8}, groups: []int{9, 10}, capabilities: 15,
		noNewPrivs: true}
	testkit.Must(t, err)
	testkit.Equal(t, got, want)
	for line := range strings.Lines(status) {
		if strings.HasPrefix(line, "Name") || strings.HasPrefix(line, "CapBnd") {
			continue
		}
		testkit.Fails(parseStatus(strings.Replace(status, line, "", 1)))(t, "", "without", line)
		if _, err := parseStatus(strings.Replace(status, line, strings.Replace(line, "\t", "\tx", 1),
			1)); err == nil && !strings.HasPrefix(line, "NoNew") {
			t.Errorf("no error with rubbish in %q", line)
		}
	}
}

// givingUp is the environment variable that makes this test binary confine itself.
const givingUp = "TARE_TEST_GIVES_UP"

func TestMain(m *testing.M) {
	if os.Getenv(givingUp) != "" {
		os.Exit(giveUp(os.Getenv(givingUp)))
	}
	os.Exit(testkit.Tests{M: m}.Run())
}

// giveUp confines this process to a directory, in all threads, and tries to access others.
func giveUp(dir string) int {
	if err := tryOutside(dir); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("confined")
	return 0
}

func tryOutside(dir string) error {
	served, err := os.Open(filepath.Join(dir, "served"))
	if err != nil {
		return err
	}
	logs, err := os.Open(filepath.Join(dir, "logs"))
	if err != nil {
		return err
	}
	p, err := NewPlan(Config{Sandbox: Require})
	if err != nil {
		return err
	}
	out, err := p.Apply(Folders{Served: served, Keep: []Folder{{logs, Write}}})
	if err != nil {
		return err
	}
	if out.Landlock == 0 || !out.NoNewPrivs {
		return fmt.Errorf("%+v", out)
	}
	results := make(chan error)
	for range 8 { // more threads than before
		go func() {
			results <- errors.Join(
				want(nil, opening(dir, "served/file", os.O_RDONLY)),
				want(fs.ErrPermission, opening(dir, "served/file", os.O_WRONLY)),
				want(fs.ErrPermission, opening(dir, "served/new", os.O_WRONLY|os.O_CREATE)),
				want(fs.ErrPermission, opening(dir, "served/../file", os.O_RDONLY)),
				want(fs.ErrPermission, opening("/", "etc/passwd", os.O_RDONLY)),
				want(nil, opening(dir, "logs/log", os.O_WRONLY|os.O_CREATE)),
				want(fs.ErrPermission, opening(dir, "logs/log", os.O_RDONLY)),
				want(fs.ErrPermission, os.Remove(filepath.Join(dir, "logs/old"))),
				want(fs.ErrPermission, exec.Command("/bin/true").Run()),
			)
		}()
	}
	for range 8 {
		err = errors.Join(err, <-results)
	}
	return err
}

func opening(dir, name string, flag int) error {
	f, err := os.OpenFile(filepath.Join(dir, name), flag, 0o600)
	if err == nil {
		f.Close()
		return nil
	}
	return err
}

func want(target, err error) error {
	if target == nil && err == nil || target != nil && errors.Is(err, target) {
		return nil
	}
	return fmt.Errorf("got %w, want %w", err, target)
}

func TestLandlockConfinesEveryThread(t *testing.T) {
	if LandlockVersion() == 0 {
		testkit.Missing(t, "this kernel has no Landlock")
	}
	dir := t.TempDir()
	for _, name := range []string{"served", "logs"} {
		testkit.Must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	for _, name := range []string{"served/file", "file", "logs/old"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	cmd := testkit.Command(t, "/proc/self/exe")
	cmd.Env = append(os.Environ(), givingUp+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "confined\n" {
		t.Errorf("%s%v", out, err)
	}
}
