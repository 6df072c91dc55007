package files_test

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// inTrace is the environment variable that makes a test the traced program.
const inTrace, traceRoot = "FILES_TEST_TRACED", "FILES_TEST_ROOT"

// TestTraced is the program that TestOpenedPaths traces; otherwise it has no effect.
func TestTraced(t *testing.T) {
	if os.Getenv(inTrace) == "" {
		t.Skip("runs below TestOpenedPaths")
	}
	s := &site{t, os.Getenv(traceRoot), ""}
	h := s.handler(files.Config{Listing: true, Compress: files.Compress{Siblings: true, Gzip: true}})
	ours := hosts(t, h)[1]
	ours.request(t, "GET", "/x.txt") // files that Go itself opens for the first request
	_, _ = os.Stat("/begin-of-the-trace")
	b := testkit.Value(os.ReadFile(os.Getenv(inTrace)))(t)
	for _, path := range strings.Split(string(b), "\n") {
		ours.raw(t, path)
	}
	_, _ = os.Stat("/end-of-the-trace")
}

// No file outside of the root is opened, inspected or watched: a trace of system calls proves it.
func TestOpenedPaths(t *testing.T) {
	strace, _ := programs.Installed(t, "strace", "strace")
	if out, err := testkit.Command(t, strace, "-o", "/dev/null", strace, "-V").CombinedOutput(); err != nil {
		testkit.Missing(t, "strace cannot trace: ", err, ": ", string(out))
	}
	s, paths := hostile(t)
	list, trace := filepath.Join(t.TempDir(), "paths"), filepath.Join(t.TempDir(), "trace")
	s.must(os.WriteFile(list, []byte(strings.Join(paths, "\n")), 0o644))
	c := testkit.Command(t, strace, "-f", "-y", "-o", trace, "-e", "trace=%file,openat2,inotify_add_watch",
		"-s", "5000",
		os.Args[0], "-test.run=^TestTraced$", "-test.v")
	c.Env = append(os.Environ(), inTrace+"="+list, traceRoot+"="+s.dir)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestTraced") {
		t.Fatalf("%v\n%s", err, out)
	}
	f := testkit.Value(os.Open(trace))(t)
	defer f.Close()
	opened, within := 0, false
	result := regexp.MustCompile(`= \d+<([^>]*)>`)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.Contains(line, "/begin-of-the-trace"):
			within = true
		case strings.Contains(line, "/end-of-the-trace"):
			within = false
		case !within || strings.Contains(line, list) || strings.Contains(line, "resumed>"):
			continue
		}
		if m := result.FindStringSubmatch(line); m != nil && !strings.Contains(line, "inotify_add_watch") {
			if opened++; m[1] != s.dir && !strings.HasPrefix(m[1], s.dir+"/") {
				t.Errorf("outside of %s: %s", s.dir, line)
			}
		}
		if strings.Contains(line, "readlinkat(") {
			continue // its last argument is a result
		}
		for _, argument := range regexp.MustCompile(`, "(/[^"]*)"|\("(/[^"]*)"`).FindAllStringSubmatch(line, -1) {
			path := argument[1] + argument[2]
			if !strings.HasPrefix(path, s.dir) && !strings.HasPrefix(path, "/proc/self/fd/") &&
				!strings.HasSuffix(path, "-of-the-trace") {
				t.Errorf("an absolute path outside of %s: %s", s.dir, line)
			}
		}
	}
	testkit.Between(t, opened, 10, 1<<20, "opened files in the trace")
}

// The kind of a path is known without the permission to read it, for each policy of links. A link
// is Denied, or the kind of its target.
func TestUnreadableFileHasKind(t *testing.T) {
	if !asNobody(t) {
		return
	}
	s := newSite(t, "dir/file", "x")
	s.must(os.Symlink("dir", s.path("link")))
	s.must(os.Symlink("dir/file", s.path("filelink")))
	s.must(syscall.Mkfifo(s.path("fifo"), 0))
	s.must(os.Chmod(s.path("dir/file"), 0))
	s.must(os.Chmod(s.path("dir"), 0o311))
	defer func() { s.must(os.Chmod(s.path("dir"), 0o755)) }()
	for _, symlinks := range []string{"", "if_not_owner", "on"} {
		h, err := files.New(files.Config{Dir: s.path(""), ByPath: true, DisableSymlinks: symlinks,
			SymlinksFrom: strings.TrimSuffix(s.path(""), "/")})
		s.must(err)
		for name, want := range map[string]files.Kind{
			"/dir": files.Directory, "/dir/": files.Directory, "/dir/file": files.File, "/fifo": files.Nothing,
			"/dir/none": files.Nothing,
			"/link":     files.Directory, "/filelink": files.File,
		} {
			if symlinks == "on" && strings.HasSuffix(name, "link") {
				want = files.Denied
			}
			testkit.Equal(t, h.Kind(name), want, symlinks, name)
		}
		s.must(h.Close())
	}
}
