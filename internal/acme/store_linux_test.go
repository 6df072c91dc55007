package acme

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// Keys are not stored where other users could replace them, or in a file that others can read.
func TestKeysStayOutOfDirectoriesOfOthers(t *testing.T) {
	dir := t.TempDir()
	temporary := filepath.Join(dir, ".key.new")
	if err := os.WriteFile(temporary, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(temporary, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := newStore(dir).write("key", []byte("secret")); err != nil {
		t.Fatal(err)
	}
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
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	check("all users may write to it")
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 64123, -1); err != nil {
		t.Fatal(err)
	}
	check("user 64123 owns it")
}
