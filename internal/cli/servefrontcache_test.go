package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// The serving user owns the folder of a cache, even an existing one, and can write to it. As in
// nginx, its parent is not created: root's could not be entered.
func TestCacheFolderIsOwnedByTheServingUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	const conf = `user nobody;
events {}
http {
	proxy_cache_path DIR/there keys_zone=there:1m;
	proxy_cache_path DIR/new keys_zone=new:1m;
	server { listen unix:DIR/socket; location / { return 200 x; } }
}`
	f := newFrontSite(t)
	f.configure(conf)
	testkit.Must(t, os.Mkdir(f.path("there"), 0o555))
	f.start()
	get(t, f.over("socket"), "http://any/", "x")
	for name, mode := range map[string]fs.FileMode{"there": 0o755, "new": 0o700} {
		info, err := os.Stat(f.path(name))
		testkit.Must(t, err)
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid == 0 || info.Mode().Perm() != mode {
			t.Errorf("%s: user %d, mode %v, want mode %v", name, uid, info.Mode().Perm(), mode)
		}
		if _, err := os.Stat(filepath.Join(f.path(name), "drafts")); err != nil {
			t.Error(err)
		}
	}
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}

	f = newFrontSite(t)
	f.configure(`user nobody; events {} http { proxy_cache_path DIR/a/b keys_zone=one:1m; server { listen unix:DIR/socket; } }`)
	f.served = serveFiles(t, "-c", f.path("nginx.conf"))
	f.await(`cache "one": mkdir .*no such file or directory \(create .*/a first`)
	if code := f.wait(); code == 0 {
		t.Error("it starts without the folder's parent")
	}
	if _, err := os.Stat(f.path("a")); err == nil {
		t.Error("the parent was made")
	}
}
