package privilege

import (
	"errors"
	"os"
	"os/user"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// fake is a kernel that does as requested, and may lie about it.
type fake struct {
	did     []string
	version int
	fail    string // the step that fails
	liars   []thread
	dirs    []openDir
	escape  error // result of regain
	outside error // result of confined
}

var errFake = errors.New("refused by the fake")

func (f *fake) do(step string) error {
	f.did = append(f.did, step)
	if f.fail == step {
		return errFake
	}
	return nil
}

func (f *fake) landlock() int           { return f.version }
func (f *fake) noNewPrivs() error       { return f.do("no_new_privs") }
func (f *fake) confine(Folders) error   { return f.do("landlock") }
func (f *fake) dropCapabilities() error { return f.do("capset") }
func (f *fake) chroot(*os.File) error   { return f.do("chroot") }
func (f *fake) setGroups(gids []int) error {
	if len(gids) != 0 {
		return errors.New("groups were to be dropped")
	}
	return f.do("setgroups")
}
func (f *fake) setGID(int) error             { return f.do("setgid") }
func (f *fake) setUID(int) error             { return f.do("setuid") }
func (f *fake) openProc() error              { return f.do("proc") }
func (f *fake) closeProc()                   { _ = f.do("end") }
func (f *fake) threads() ([]thread, error)   { return f.liars, f.do("threads") }
func (f *fake) confined(Folders) error       { return f.outside }
func (f *fake) regain(int) error             { _ = f.do("regain"); return f.escape }
func (f *fake) openDirs() ([]openDir, error) { return f.dirs, f.do("dirs") }

const (
	uid = 1001
	gid = 1002
)

// dropped returns the status of a thread that has lost its privileges.
func dropped() thread {
	return thread{id: 7, uids: [4]int{uid, uid, uid, uid}, gids: [4]int{gid, gid, gid, gid}, noNewPrivs: true}
}

func plan(chroot bool, s Sandbox) *Plan {
	return &Plan{config: Config{User: "1001", Group: "1002", Chroot: chroot, Sandbox: s}, changesUser: true, uid: uid,
		gid: gid}
}

func folders(t *testing.T) Folders {
	t.Helper()
	dir := testkit.Value(os.Open(t.TempDir()))(t)
	t.Cleanup(func() { dir.Close() })
	return Folders{Served: dir}
}

// The order makes each step possible and final.
func TestStepsAreTakenInOrder(t *testing.T) {
	k := &fake{version: 7, liars: []thread{dropped(), dropped()}}
	out := testkit.Value(plan(true, Auto).apply(k, folders(t)))(t)
	want := "proc no_new_privs landlock chroot setgroups setgid setuid threads regain dirs end"
	testkit.Equal(t, strings.Join(k.did, " "), want)
	if !out.Chroot || out.Landlock != 7 || !out.NoNewPrivs || out.UID != uid || out.GID != gid || out.Unconfined != "" {
		t.Errorf("%+v", out)
	}
}

func TestAnyFailedStepFailsApply(t *testing.T) {
	for _, step := range []string{"proc", "chroot", "setgroups", "setgid", "setuid", "threads", "dirs",
		"no_new_privs", "landlock"} {
		k := &fake{version: 7, liars: []thread{dropped()}, fail: step}
		testkit.FailsWith(plan(true, Require).apply(k, folders(t)))(t, errFake, step)
	}
}

// A kernel that falsely reports success is detected.
func TestVerificationDetectsFalseSuccess(t *testing.T) {
	root := testkit.Value(os.Open("/"))(t)
	defer root.Close()
	info := testkit.Value(root.Stat())(t)
	of := func(change func(*thread)) func(*fake) {
		return func(f *fake) {
			liar := dropped()
			change(&liar)
			f.liars = []thread{dropped(), liar, dropped()}
		}
	}
	for why, lie := range map[string]func(*fake){
		"thread 7 has users [1001 1001 0 1001] and groups":  of(func(t *thread) { t.uids[2] = 0 }),
		"and groups [0 1002 1002 1002], want 1001 and 1002": of(func(t *thread) { t.gids[0] = 0 }),
		"thread 7 has supplementary groups [0 27]":          of(func(t *thread) { t.groups = []int{0, 27} }),
		"thread 7 has capabilities 0x400":                   of(func(t *thread) { t.capabilities = 1 << 10 }),
		"thread 7 may gain new privileges":                  of(func(t *thread) { t.noNewPrivs = false }),
		"no threads in /proc":                               func(f *fake) { f.liars = nil },
		"root again":                                        func(f *fake) { f.escape = errors.New("root again") },
		"read in spite":                                     func(f *fake) { f.outside = errors.New("read in spite") },
		`descriptor 3 is the directory "/"`:                 func(f *fake) { f.dirs = []openDir{{3, "/", info}} },
	} {
		k := &fake{version: 7, liars: []thread{dropped()}}
		lie(k)
		_, err := plan(true, Auto).apply(k, folders(t))
		testkit.Error(t, err, "privileges were not dropped: ")
		testkit.Error(t, err, why)
	}
}

// If the kernel has no Landlock, it is reported or an error, depending on Sandbox. No directory
// outside of the root is then kept.
func TestMissingLandlockIsReportedOrAnError(t *testing.T) {
	k := &fake{liars: []thread{dropped()}}
	out, err := plan(false, Auto).apply(k, folders(t))
	if err != nil || out.Landlock != 0 || !out.NoNewPrivs || !strings.Contains(out.Unconfined, "without Landlock") {
		t.Errorf("%+v, %v", out, err)
	}
	testkit.Fails(plan(false, Require).apply(k, folders(t)))(t, "sandbox is required: ")
	liar := dropped()
	liar.noNewPrivs = false
	k = &fake{version: 7, liars: []thread{liar}}
	if out, err := plan(false, Off).apply(k, folders(t)); err != nil || out.NoNewPrivs ||
		slices.Contains(k.did, "landlock") {
		t.Errorf("%+v, %v", out, err)
	}
	f := folders(t)
	f.Keep = []Folder{{File: f.Served, For: Read}}
	for _, s := range []Sandbox{Off, Auto} {
		testkit.Fails(plan(true, s).apply(&fake{liars: []thread{liar}}, f))(t, "because it leads out of the root", s)
	}
	testkit.Value(plan(false, Off).apply(&fake{liars: []thread{liar}}, f))(t)
}

func TestReachingOnlyRefusesNewPrivileges(t *testing.T) {
	p := plan(false, Auto)
	p.config.Reaching = true
	k := &fake{version: 7, liars: []thread{dropped()}}
	out, err := p.apply(k, Folders{})
	testkit.Must(t, err)
	testkit.Equal(t, strings.Join(k.did, " "), "proc no_new_privs setgroups setgid setuid threads regain end")
	if out.Landlock != 0 || !out.NoNewPrivs || out.Unconfined != "" {
		t.Errorf("%+v", out)
	}
}

// A process that is not root and keeps its user loses its capabilities.
func TestUnprivilegedProcessDropsCapabilities(t *testing.T) {
	p := &Plan{config: Config{Sandbox: Auto}, uid: uid, gid: gid}
	member := dropped()
	member.groups = []int{4}
	k := &fake{version: 7, liars: []thread{member}}
	if _, err := p.apply(k, folders(t)); err != nil || k.did[1] != "capset" || slices.Contains(k.did, "setuid") {
		t.Errorf("%v, %v", k.did, err)
	}
}

func TestLookUpFindsUsersAndGroups(t *testing.T) {
	me := testkit.Value(user.Current())(t)
	for _, name := range []string{me.Username, me.Uid} {
		p := &Plan{config: Config{User: name}, changesUser: true}
		if err := p.lookUp(); err != nil || p.user != me.Username || p.uid != os.Getuid() {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for _, c := range []struct{ user, group, why string }{
		{"no-such-user", "", `unknown user "no-such-user"`},
		{me.Username, "no-such-group", `unknown group "no-such-group"`},
		{"64123", "", `user "64123" has no group of its own`},
		{"4294967295", "0", `unknown user "4294967295"`},
		{"-1", "0", `unknown user "-1"`},
	} {
		p := &Plan{config: Config{User: c.user, Group: c.group}, changesUser: true}
		testkit.Error(t, p.lookUp(), c.why, c.user, c.group)
	}
	p := &Plan{config: Config{User: "64123", Group: "64124"}, changesUser: true}
	if err := p.lookUp(); err != nil || p.uid != 64123 || p.gid != 64124 || p.user != "64123" || p.group != "64124" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestNewPlanRejectsImpossibleConfigs(t *testing.T) {
	for why, c := range map[string]Config{
		"group requires a user":                     {Group: "0"},
		"chroot requires a user other than root, b": {Chroot: true},
		"chroot requires a user other than root":    {Chroot: true, User: "0", Group: "0"},
	} {
		testkit.Fails(NewPlan(c))(t, why, c)
	}
	testkit.Equal(t, testkit.Value(NewPlan(Config{}))(t).uid, os.Geteuid(), "user")
}
