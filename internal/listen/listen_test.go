package listen

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestParseAcceptsValidAddresses(t *testing.T) {
	for text, want := range map[string]Spec{
		"127.0.0.1:80":     {"tcp", "127.0.0.1:80"},
		":80":              {"tcp", ":80"},
		"[::1]:80":         {"tcp", "[::1]:80"},
		"[fe80::1%lo]:0":   {"tcp", "[fe80::1%lo]:0"},
		"localhost:65535":  {"tcp", "localhost:65535"},
		"unix:/run/x.sock": {"unix", "/run/x.sock"},
		"unix:a:b":         {"unix", "a:b"},
		"systemd":          {Systemd, ""},
		"systemd:web":      {Systemd, "web"},
	} {
		got, err := Parse(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: got %+v, %s, %v", text, got, got, err)
		}
	}
	for _, text := range []string{
		"", "80", "127.0.0.1", "::1:80", ":", ":http", ":65536", ":-1", "http://127.0.0.1:80", "unix:", "systemd:",
		"unix:/" + strings.Repeat("x", maxUnixPath),
	} {
		testkit.Fails(Parse(text))(t, "", text)
	}
	testkit.Equal(t, Port(0).String(), ":0")
}

func all(t *testing.T, specs ...Spec) []net.Listener {
	t.Helper()
	ls := testkit.Value(All(specs, Options{SocketMode: 0o600}, new(Passed)))(t)
	t.Cleanup(func() {
		for _, l := range ls {
			l.Close()
		}
	})
	return ls
}

// If All fails, it closes what it has opened.
func TestAllListensOnAllOrNone(t *testing.T) {
	free := all(t, Spec{"tcp", "127.0.0.1:0"})[0]
	addr := free.Addr().String()
	inUse := all(t, Spec{"tcp", "127.0.0.1:0"})[0].Addr().String()
	free.Close()
	_, err := All([]Spec{{"tcp", addr}, {"tcp", inUse}}, Options{SocketMode: 0o600}, new(Passed))
	testkit.Error(t, err, inUse+": in use by another process")
	all(t, Spec{"tcp", addr}) // is free again
}

// A stale socket is replaced. One in use is not, and neither is a file.
func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	first, err := net.Listen("unix", path)
	if err != nil {
		t.Skip(err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	unix := Spec{"unix", path}
	testkit.Fails(All([]Spec{unix}, Options{SocketMode: 0o600}, new(Passed)))(t, "in use")
	first.Close()
	l := all(t, unix)[0]
	testkit.Equal(t, testkit.Value(os.Stat(path))(t).Mode().Perm(), 0o600, "mode")
	c := testkit.Value(net.Dial("unix", path))(t)
	c.Close()
	l.Close()
	testkit.Must(t, os.WriteFile(path, []byte("text"), 0o600))
	testkit.Fails(All([]Spec{unix}, Options{SocketMode: 0o600}, new(Passed)))(t, "", "where a file is")
	testkit.Equal(t, string(testkit.Value(os.ReadFile(path))(t)), "text", "the file")
}

// An abstract socket has no permissions and is never stale.
func TestAbstractSocketHasNoPermissions(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has them")
	}
	l := all(t, Spec{"unix", fmt.Sprintf("@tare-test-%d", os.Getpid())})[0]
	c := testkit.Value(net.Dial("unix", l.Addr().String()))(t)
	c.Close()
}

// Sockets are used only if they were passed to this process.
func TestInheritIgnoresSocketsOfOtherProcesses(t *testing.T) {
	t.Setenv("LISTEN_PID", "1")
	t.Setenv("LISTEN_FDS", "1")
	if p, err := Inherit(); err != nil || p.Any() {
		t.Errorf("%+v, %v", p, err)
	}
	testkit.Equal(t, os.Getenv("LISTEN_FDS"), "", "LISTEN_FDS")
	testkit.Fails(All([]Spec{{Systemd, ""}}, Options{}, new(Passed)))(t, "no socket was passed")
}

// One applies its options: a port is reused if ReusePort is set, and a network is limited to one
// version of IP.
func TestOneAppliesOptions(t *testing.T) {
	l := testkit.Value(One(Spec{"tcp4", "127.0.0.1:0"}, Options{Backlog: 7, ReusePort: runtime.GOOS != "windows"}, new(Passed)))(t)
	defer l.Close()
	if runtime.GOOS == "windows" {
		return
	}
	again := testkit.Value(One(Spec{"tcp4", l.Addr().String()}, Options{ReusePort: true}, new(Passed)))(t)
	again.Close()
	testkit.Fails(One(Spec{"tcp6", l.Addr().String()}, Options{}, new(Passed)))(t, "", "an address of another version")
}

func TestPassedSocketIsFoundByAddress(t *testing.T) {
	l := all(t, Spec{"tcp", "127.0.0.1:0"})[0]
	passed := NewPassed([]net.Listener{l})
	path := filepath.Join(t.TempDir(), "socket")
	other := testkit.Value(One(Spec{"unix", path}, Options{SocketMode: 0o600}, passed))(t)
	other.Close()
	testkit.Error(t, passed.CheckUnused(), "was passed, but no listener uses it")
	same := testkit.Value(One(Spec{"tcp4", l.Addr().String()}, Options{}, passed))(t)
	defer same.Close()
	testkit.Check(t, passed.CheckUnused())
}
