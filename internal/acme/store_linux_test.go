package acme

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// Keys are not stored where other users could replace them, or in a file that others can read.
func TestKeysStayOutOfDirectoriesOfOthers(t *testing.T) {
	dir := t.TempDir()
	temporary := filepath.Join(dir, ".key.new")
	testkit.Must(t, os.WriteFile(temporary, nil, 0o600))
	testkit.Must(t, os.Chmod(temporary, 0o666))
	testkit.Must(t, newStore(dir).write("key", []byte("secret")))
	if info, err := os.Stat(filepath.Join(dir, "key")); err != nil || info.Mode() != fileMode {
		t.Errorf("%v, %v", info, err)
	}
	config := configOf("a.test", conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: dir, Pos: "nginx.conf:3"})
	check := func(want string) {
		t.Helper()
		err := New(Config{}).Load(config, -1)
		if err == nil || !strings.Contains(err.Error(), "nginx.conf:3: acme_issuer i: state_path: "+dir+": "+want) {
			t.Errorf("%v", err)
		}
	}
	testkit.Must(t, os.Chmod(dir, 0o777))
	check("all users may write to it")
	if os.Geteuid() != 0 {
		return
	}
	testkit.Must(t, os.Chmod(dir, 0o700))
	testkit.Must(t, os.Chown(dir, 64123, -1))
	check("user 64123 owns it")
}

// A directory with files of others is not given to the user that will serve.
func TestDirectoriesOfOthersAreNotGivenAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives directories to users")
	}
	const uid = 64123
	dir := t.TempDir()
	config := configOf("a.test", conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: dir, Pos: "nginx.conf:3"})
	for _, name := range []string{"account.key", "x.pem.invalid", ".x.json.new", "account.lock"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	owner := func() uint32 {
		info, err := os.Stat(dir)
		testkit.Must(t, err)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "passwd"), nil, 0o600))
	err := New(Config{}).Load(config, uid)
	if want := "nginx.conf:3: acme_issuer i: state_path: " + dir + ` has other files, such as "passwd"`; err == nil ||
		!strings.HasPrefix(err.Error(), want) || owner() == uid {
		t.Errorf("%v, owner %d", err, owner())
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, "passwd")))
	if err := New(Config{}).Load(config, uid); err != nil || owner() != uid {
		t.Errorf("%v, owner %d", err, owner())
	}
}

// A key that is written where the name of a file belongs does not appear in the error.
func TestExternalKeyIsNotPrinted(t *testing.T) {
	for _, key := range []string{"c2VjcmV0", strings.Repeat("c2VjcmV0", 1000)} {
		issuer := conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: t.TempDir(),
			ExternalAccount: "kid", ExternalKeyFile: "/etc/nginx/" + key}
		err := New(Config{}).Check(configOf("a.test", issuer))
		if err == nil || strings.Contains(err.Error(), "c2VjcmV0") || !strings.Contains(err.Error(), "data:KEY") {
			t.Errorf("%v", err)
		}
	}
}
