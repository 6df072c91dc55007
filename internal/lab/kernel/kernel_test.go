package kernel_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/kernel"
	"github.com/tarehq/tare/internal/testkit"
)

// fake makes a tree of settings.
func fake(t *testing.T, settings map[string]string) kernel.Tree {
	t.Helper()
	tree := kernel.Tree{Root: t.TempDir()}
	for name, value := range settings {
		set(t, tree, name, value)
	}
	return tree
}

func set(t *testing.T, tree kernel.Tree, name, value string) {
	t.Helper()
	file := filepath.Join(tree.Root, strings.ReplaceAll(name, ".", "/"))
	testkit.WriteFile(t, file, value+"\n")
}

// unwritable makes a setting that cannot be written, not even by root.
func unwritable(t *testing.T, tree kernel.Tree, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(tree.Root, strings.ReplaceAll(name, ".", "/")), 0o755); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, tree kernel.Tree, name string) string {
	t.Helper()
	v, err := tree.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// keeper records its calls.
type keeper struct{ calls []string }

func (k *keeper) Keep(c kernel.Change)   { k.calls = append(k.calls, "keep "+c.Name) }
func (k *keeper) Forget(c kernel.Change) { k.calls = append(k.calls, "forget "+c.Name) }

func TestParseReadsSysctlConf(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"# a\n\n; b\nnet.core.somaxconn=1\n net.ipv4.ip_local_port_range =  1\t2 \n", `[{net.core.somaxconn 1} {net.ipv4.ip_local_port_range 1 2}] <nil>`},
		{"a.b = 1\na.b = 2", `line 2: duplicate setting "a.b"`},
		{"a.b", `line 1: "a.b": want a setting and its value, such as "net.core.somaxconn = 65535"`},
		{"a.b =", `line 1: "a.b =": want`},
		{"\n../../etc/passwd = 1", `line 2: "../../etc/passwd = 1": want`},
		{"a...b = 1", `line 1: "a...b = 1": want`},
	} {
		all, err := kernel.Parse(test.text)
		if got := fmt.Sprint(all, err); !strings.Contains(got, test.want) {
			t.Errorf("%q: got %s, want %s", test.text, got, test.want)
		}
	}
}

// Changes proposes a change only if it affects a run, and never a lower limit.
func TestChangesAffectARun(t *testing.T) {
	for _, test := range []struct {
		name, theirs, here string
		connections        int
		want               string // "" is no change
	}{
		{"net.core.somaxconn", "65535", "4096", 5000, "65535"},
		{"net.core.somaxconn", "65535", "4096", 64, ""},
		{"net.core.somaxconn", "1024", "4096", 5000, ""},
		{"net.core.somaxconn", "4096", "4096", 5000, ""},
		{"net.core.somaxconn", "many", "4096", 5000, ""},
		{"fs.file-max", "9999999", "2465620", 5000, ""},
		{"fs.file-max", "9999999", "18446744073709551615", 5000, ""},
		{"net.ipv4.tcp_max_tw_buckets", "400000", "131072", 1, "400000"},
		{"net.ipv4.ip_local_port_range", "1025 65535", "32768 60999", 1, "16384 65535"},
		{"net.ipv4.ip_local_port_range", "1025 65535", "10000 60999", 1, "10000 65535"},
		{"net.ipv4.ip_local_port_range", "40000 50000", "32768 60999", 1, ""},
		{"net.ipv4.ip_local_port_range", "1025", "32768 60999", 1, ""},
		{"net.ipv4.tcp_tw_reuse", "1", "2", 1, ""},
		{"net.ipv4.tcp_tw_reuse", "1", "0", 1, "1"},
		{"net.ipv4.tcp_no_metrics_save", "1", "0", 1, "1"},
		{"vm.overcommit_memory", "1", "0", 1, ""},
		{"net.ipv4.novel", "1", "0", 1, ""},
	} {
		tree := fake(t, map[string]string{test.name: test.here})
		all := kernel.Changes(tree, []kernel.Assignment{{Name: test.name, Value: test.theirs}}, test.connections)
		is := func(c kernel.Change) bool { return c.To == test.want && c.From == test.here }
		if slices.ContainsFunc(all, is) != (test.want != "") || len(all) > 1 {
			t.Errorf("%s %s, here %s, %d connections: got %+v; want %q", test.name, test.theirs, test.here,
				test.connections, all, test.want)
		}
	}
	theirs := []kernel.Assignment{{Name: "net.core.somaxconn", Value: "9"}}
	if all := kernel.Changes(fake(t, nil), theirs, 5); len(all) > 0 {
		t.Errorf("a setting that cannot be read: %+v", all)
	}
}

// tuned compares a few settings and applies the changes.
func tuned(t *testing.T, tree kernel.Tree, k kernel.Keeper) (*kernel.Tuning, []kernel.Change, error) {
	t.Helper()
	theirs := []kernel.Assignment{
		{"net.core.somaxconn", "65535"}, {"net.ipv4.ip_local_port_range", "1025 65535"}, {"net.ipv4.tcp_tw_reuse", "1"},
	}
	changes := kernel.Changes(tree, theirs, 5000)
	tuning, err := kernel.Apply(changes, k)
	return tuning, changes, err
}

func settings() map[string]string {
	return map[string]string{
		"net.core.somaxconn": "128", "net.ipv4.ip_local_port_range": "32768\t60999", "net.ipv4.tcp_tw_reuse": "2",
	}
}

func TestRestoreUndoesApply(t *testing.T) {
	tree, k := fake(t, settings()), &keeper{}
	tuning, changes, err := tuned(t, tree, k)
	if err != nil || len(changes) != 2 || kernel.Allowed(changes) != nil {
		t.Fatal(err, changes)
	}
	if a, b := read(t, tree, "net.core.somaxconn"), read(t, tree, "net.ipv4.ip_local_port_range"); a != "65535" ||
		b != "16384 65535" {
		t.Errorf("applied: %s, %s", a, b)
	}
	if err := tuning.Restore(); err != nil {
		t.Error(err)
	}
	if a, b := read(t, tree, "net.core.somaxconn"), read(t, tree, "net.ipv4.ip_local_port_range"); a != "128" ||
		b != "32768 60999" {
		t.Errorf("restored: %s, %s", a, b)
	}
	want := []string{
		"keep net.core.somaxconn", "keep net.ipv4.ip_local_port_range", "forget net.ipv4.ip_local_port_range",
		"forget net.core.somaxconn",
	}
	if !slices.Equal(k.calls, want) {
		t.Errorf("calls %q", k.calls)
	}
	set(t, tree, "net.core.somaxconn", "65535") // as if by another program, afterwards
	if err := tuning.Restore(); err != nil || read(t, tree, "net.core.somaxconn") != "65535" {
		t.Error("restored twice", err)
	}
}

// A setting that another program changed meanwhile is reported and not restored; the others are.
func TestRestoreLeavesWhatOthersChanged(t *testing.T) {
	tree, k := fake(t, settings()), &keeper{}
	tuning, _, err := tuned(t, tree, k)
	if err != nil {
		t.Fatal(err)
	}
	set(t, tree, "net.core.somaxconn", "77")
	err = tuning.Restore()
	if err == nil || err.Error() != "net.core.somaxconn was 128 before the run and is 77: another program has changed it meanwhile, so it is not restored" {
		t.Error(err)
	}
	if a, b := read(t, tree, "net.core.somaxconn"), read(t, tree, "net.ipv4.ip_local_port_range"); a != "77" ||
		b != "32768 60999" || len(k.calls) != 4 {
		t.Errorf("restored: %s, %s; calls %q", a, b, k.calls)
	}
}

// A setting that cannot be restored is reported, and the keeper still has it; the others are
// restored.
func TestRestoreContinuesAfterErrors(t *testing.T) {
	tree, k := fake(t, settings()), &keeper{}
	tuning, _, err := tuned(t, tree, k)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(tree.Root, "net/ipv4/ip_local_port_range")); err != nil {
		t.Fatal(err)
	}
	err = tuning.Restore()
	if err == nil || !strings.HasPrefix(err.Error(), "net.ipv4.ip_local_port_range was 32768 60999 and cannot be restored: ") {
		t.Error(err)
	}
	if read(t, tree, "net.core.somaxconn") != "128" || slices.Contains(k.calls, "forget net.ipv4.ip_local_port_range") {
		t.Errorf("calls %q", k.calls)
	}
}

func TestApplyMakesAllChangesOrNone(t *testing.T) {
	tree, k := fake(t, settings()), &keeper{}
	changes := []kernel.Change{
		{Tree: tree, Name: "net.core.somaxconn", From: "128", To: "256"},
		{Tree: tree, Name: "net.ipv4.ip_local_port_range", From: "1 2", To: "1 3"},
	}
	if _, err := kernel.Apply(changes, k); err == nil || !strings.Contains(err.Error(), `net.ipv4.ip_local_port_range is "32768 60999" and was "1 2" a moment ago`) {
		t.Error(err)
	}
	if got := read(t, tree, "net.core.somaxconn"); got != "128" ||
		!slices.Equal(k.calls, []string{"keep net.core.somaxconn", "forget net.core.somaxconn"}) {
		t.Errorf("left %s, calls %q", got, k.calls)
	}
}

func TestAllowedNamesEverySettingThatCannotBeWritten(t *testing.T) {
	tree := fake(t, settings())
	unwritable(t, tree, "fs.file-max")
	unwritable(t, tree, "vm.min_free_kbytes")
	err := kernel.Allowed([]kernel.Change{
		{Tree: tree, Name: "fs.file-max"}, {Tree: tree, Name: "net.core.somaxconn"},
		{Tree: tree, Name: "vm.min_free_kbytes"},
	})
	if err == nil || !strings.Contains(err.Error(), "fs.file-max: ") ||
		!strings.Contains(err.Error(), "vm.min_free_kbytes: ") || strings.Contains(err.Error(), "somaxconn") {
		t.Error(err)
	}
	if read(t, tree, "net.core.somaxconn") != "128" {
		t.Error("Allowed has written a setting")
	}
}

func TestNamesDoNotLeadOutOfTheTree(t *testing.T) {
	tree := fake(t, nil)
	for _, name := range []string{"", "a", "../a.b", "a/b.c", "a..b", ".a.b", "a.b\x00"} {
		c := kernel.Change{Tree: tree, Name: name, From: "1", To: "2"}
		if _, err := tree.Read(name); err == nil || !strings.Contains(err.Error(), "invalid name of a kernel setting") {
			t.Errorf("%q: %v", name, err)
		}
		if err := c.Undo(); err == nil {
			t.Errorf("%q can be written", name)
		}
	}
}

func TestZeroTreeIsTheMachines(t *testing.T) {
	if v, err := (kernel.Tree{}).Read("net.core.somaxconn"); err != nil || v == "" {
		t.Error(v, err)
	}
}

// Only limits that were reached are reported. A counter that has wrapped is not.
func TestSinceReportsReachedLimits(t *testing.T) {
	before := kernel.Reached{Backlog: 5, Accepts: 7, Closed: 9}
	if sentences := before.Since(before); len(sentences) != 0 {
		t.Errorf("%q", sentences)
	}
	sentences := kernel.Reached{Backlog: 2, Accepts: 10, Closed: 9}.Since(before)
	if len(sentences) != 1 ||
		!strings.HasPrefix(sentences[0], "In this run 3 connections were dropped and tried again") {
		t.Errorf("%q", sentences)
	}
}

// A listening socket with a backlog of one, which accepts nothing, drops further connections.
func TestReachedNowCountsFullBacklogs(t *testing.T) {
	before, err := kernel.ReachedNow()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(client)
		if err := unix.Connect(client, at); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		now, err := kernel.ReachedNow()
		if err != nil {
			t.Fatal(err)
		}
		if now.Accepts > before.Accepts {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing was counted")
		}
	}
}
