//go:build unix

package cli_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// hostileFolder creates a folder owned by a user, with a link to a nonexistent file in root's
// folder.
func hostileFolder(t *testing.T, uid int) (folder, target string) {
	t.Helper()
	testkit.NeedRoot(t)
	top := openDir(t)
	folder, target = filepath.Join(top, "user"), filepath.Join(top, "root", "new")
	for _, dir := range []string{folder, filepath.Dir(target)} {
		testkit.Must(t, os.Mkdir(dir, 0o755))
	}
	for name, to := range map[string]string{"link": target, "dir": filepath.Dir(target)} {
		if err := errors.Join(os.Symlink(to, filepath.Join(folder, name)),
			os.Lchown(filepath.Join(folder, name), uid, uid)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, os.Chown(folder, uid, uid))
	return folder, target
}

// Root follows no links of the user that it will become: it would create files wherever that user
// likes, and give them away.
func TestRootFollowsNoLinksOfOtherUsers(t *testing.T) {
	t.Parallel()
	const uid = 64123
	folder, target := hostileFolder(t, uid)
	dir := site(t)
	conf := filepath.Join(filepath.Dir(folder), "nginx.conf")
	for what, text := range map[string]string{
		"access log": "events {} http { access_log %s; server { listen unix:DIR/s; } }",
		"error log":  "error_log %s; events {} http { server { listen unix:DIR/s; } }",
		"nested log": "events {} http { server { listen unix:DIR/s; location / { if ($uri) { access_log %s; } } } }",
		"pid":        "pid %s; events {} http { server { listen unix:DIR/s; } }",
		"cache":      "events {} http { proxy_cache_path %s keys_zone=a:1m; server { listen unix:DIR/s; } }",
	} {
		for _, name := range []string{"link", "dir/new"} {
			write(t, conf, strings.NewReplacer("%s", filepath.Join(folder, name), "DIR",
				filepath.Dir(folder)).Replace("user 64123 64123; "+text))
			s := serveFiles(t, "-c", conf)
			s.await("symlink in a directory that others may write to")
			if code := s.wait(); code == 0 {
				t.Errorf("%s at %s: exit code %d", what, name, code)
			}
		}
	}
	for _, args := range [][]string{{"--access-log", folder + "/link"}, {"--access-log", folder + "/dir/new"}} {
		s := serveFiles(t, append(args, "-u", "64123", "-g", "64123", "--listen", "127.0.0.1:0", dir)...)
		s.await("symlink in a directory that others may write to")
		s.wait()
	}
	testkit.FailsWith(os.Lstat(target))(t, fs.ErrNotExist, target)
}

// The PID file is owned by root wherever it is, and a new log by the user.
func TestPIDFileIsOwnedByRoot(t *testing.T) {
	t.Parallel()
	const uid = 64123
	folder, _ := hostileFolder(t, uid)
	top := filepath.Dir(folder)
	old := filepath.Join(folder, "pid")
	write(t, old, "1\n")
	testkit.Must(t, os.Chown(old, uid, uid))
	conf := filepath.Join(top, "nginx.conf")
	for _, path := range []string{old, filepath.Join(top, "pid")} {
		write(t, conf, "user 64123 64123; pid "+path+"; events {} http { access_log "+path+
			".log; server { listen unix:"+top+"/s; } }")
		s := serveFiles(t, "-c", conf)
		s.await("tare: running as 64123")
		for name, want := range map[string]uint32{path: 0, path + ".log": uid} {
			info, err := os.Stat(name)
			if err != nil || info.Sys().(*syscall.Stat_t).Uid != want || info.Mode().Perm()&0o022 != 0 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		testkit.Equal(t, strings.TrimSpace(read(t, path)), strconv.Itoa(s.cmd.Process.Pid), path)
		if path == old {
			s.await("warning: pid: users other than root may write to the folder")
		}
		s.stop(syscall.SIGTERM)
	}
}

// When reopening the log, root does not follow links that were put in its place.
func TestReopenedLogFollowsNoLink(t *testing.T) {
	t.Parallel()
	folder, target := hostileFolder(t, 64123)
	log := filepath.Join(folder, "log")
	s := serveFiles(t, "-u", "root", "--sandbox", "off", "--access-log", log, "--listen", "127.0.0.1:0", site(t))
	s.address()
	testkit.Must(t, errors.Join(os.Remove(log), os.Rename(filepath.Join(folder, "link"), log)))
	s.signal(syscall.SIGUSR1)
	s.await("logs: reopening failed, still writing an old file: .*symlink in a directory that others may write to")
	testkit.FailsWith(os.Lstat(target))(t, fs.ErrNotExist, target)
	s.stop(syscall.SIGTERM)
}

// A named pipe in the place of a log does not prevent the server from exiting.
func TestPipeAsReopenedLogDoesNotBlockExit(t *testing.T) {
	t.Parallel()
	dir := site(t)
	log := filepath.Join(filepath.Dir(dir), "log")
	s := serveFiles(t, "--access-log", log, "--listen", "127.0.0.1:0", dir)
	s.address()
	testkit.Must(t, errors.Join(os.Remove(log), syscall.Mkfifo(log, 0o666)))
	s.signal(syscall.SIGUSR1)
	s.await("logs: reopening failed, still writing an old file: ")
	s.stop(syscall.SIGTERM)
}
