package files_test

import (
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
)

// hostile returns a site with ways out of it, and the paths that an attacker would try.
func hostile(t testing.TB) (*site, []string) {
	s := newSite(t, "index.html", "home", "x.txt", "x", "d/e/y.txt", "y")
	misread := "a name as any other"
	if runtime.GOOS == "windows" {
		misread = secret // a device, or another file
	}
	s.write("aux.txt", misread)
	s.write("d/NUL", misread)
	s.write("com1.tar.gz", misread)
	s.write("x.txt:stream", misread)
	s.write("back\\slash", misread)
	s.write("dot.", misread)
	s.write(".hidden", secret)
	s.write(".git/config", secret)
	s.write("d/.env", secret)
	s.must(os.Symlink("../outside", s.path("out")))
	s.must(os.Symlink(s.out, s.path("absolute")))
	s.must(os.Symlink("../../../outside/secret.txt", s.path("d/e/file")))
	s.must(os.Symlink("loop", s.path("loop")))
	s.must(os.Symlink("../..", s.path("d/up")))
	s.must(os.Symlink("/proc/self/root", s.path("proc")))
	s.must(os.Symlink("../outside/secret.txt", s.path("x.txt.gz")))
	s.must(os.MkdirAll(s.path("i"), 0o755))
	s.must(os.Symlink("../../outside/secret.txt", s.path("i/index.html")))
	outside := filepath.ToSlash(s.out)
	paths := []string{
		"/../outside/secret.txt", "/..%2foutside%2fsecret.txt", "/%2e%2e/outside/secret.txt",
		"/%2e%2e%2foutside/secret.txt", "/.%2e/outside/secret.txt",
		"/d/../../outside/secret.txt", "/d/e/../../../outside/secret.txt", "/d/%2e%2e/%2e%2e/outside/secret.txt",
		"//../outside/secret.txt", "/./../outside/secret.txt",
		"/..%5coutside%5csecret.txt", "/..\\outside\\secret.txt", "/d\\..\\..\\outside\\secret.txt",
		"/%5c..%5coutside", "/..;/outside/secret.txt", "/..%00/outside/secret.txt",
		"/%252e%252e/outside/secret.txt", "/%c0%ae%c0%ae/outside/secret.txt", "/..%c0%af../outside/secret.txt",
		"/%uff0e%uff0e/outside", "/%ff%fe", "/....//....//outside/secret.txt",
		outside + "/secret.txt", "/" + outside + "/secret.txt", "/%2f" + strings.TrimPrefix(outside, "/") +
			"/secret.txt", "/x.txt%00.html", "/%00", "/x.txt%00", "/%00/../outside/secret.txt",
		"/out/secret.txt", "/out/", "/out", "/absolute/secret.txt", "/d/e/file", "/loop", "/loop/",
		"/d/up/outside/secret.txt", "/d/up/../outside/secret.txt", "/i/", "/i/index.html",
		"/proc" + outside + "/secret.txt", "/proc/etc/passwd", "/aux.txt", "/AUX.txt", "/d/NUL", "/d/nul", "/d/NUL.",
		"/com1.tar.gz", "/COM1.tar.gz", "/x.txt:stream", "/x.txt::$DATA", "/x.txt%3astream", "/back%5cslash", "/dot.",
		"/dot%2e",
		"/.hidden", "/%2ehidden", "/.git/config", "/.git/", "/d/.env", "/d/%2eenv", "/x.txt.", "/x.txt%20", "/d/e/..",
		"/d/e/%2e%2e", "/..", "/../", "/...", "/.../x",
		"/~root", "/$HOME", "/%24%7bx%7d", "/" + strings.Repeat("a", 255), "/" + strings.Repeat("a", 256), "/" +
			strings.Repeat("a", 3000), "/" + strings.Repeat("a/", 2040), "/" + strings.Repeat("d/../", 500) +
			"../outside/secret.txt",
		"/" + strings.Repeat("../", 1000) + "outside/secret.txt", "/" + strings.Repeat("%2e%2e/", 500),
		"/x.txt/../../outside/secret.txt", "/x.txt/.", "/x.txt/..", "/d//e//y.txt", "/d/e/y.txt/",
		"/?/../outside/secret.txt", "/x.txt?../outside",
		"/conin$", "/CONOUT$.txt", "/lpt9", "/com%c2%b9.txt", "/con%20.txt",
	}
	return s, paths
}

// No response ever contains anything outside of the site, or a file that must not be served.
func TestNothingEscapes(t *testing.T) {
	s, paths := hostile(t)
	for _, c := range []files.Config{{}, {Listing: true, Compress: files.Compress{Siblings: true, Gzip: true}}} {
		onEach(t, s.handler(c), func(t *testing.T, ours host) {
			for _, path := range paths {
				for range 2 {
					status, body := 0, ""
					if ours.addr != "" {
						status, body = ours.raw(t, path)
					} else if _, err := url.ParseRequestURI(path); err == nil {
						// net/http rejects the others itself
						got := ours.request(t, "GET", path, "Accept-Encoding: gzip")
						status, body = got.status, got.body
					}
					if strings.Contains(body, secret) {
						t.Fatalf("%q returns the secret", path)
					}
					testkit.Between(t, status, 0, 499, path)
				}
			}
			for path, status := range map[string]int{
				"/d/e/y.txt": 200, "/d/e/file": 404, "/out/secret.txt": 404, "/aux.txt": misreadStatus(),
				"/.hidden": 404, "/d/e/%2e%2e/": 400, "/x%00": 400,
				"/" + strings.Repeat("a", 256): 404, "/" + strings.Repeat("a/", 2100): 404, "/loop": 404,
				"/x.txt:stream": misreadStatus(), "/back%5cslash": misreadStatus(), "/dot.": misreadStatus(),
				"/com1.tar.gz": misreadStatus(),
			} {
				testkit.Equal(t, ours.request(t, "GET", path).status, status, path)
			}
		})
	}
}

// misreadStatus is the status for names that Windows treats as something else.
func misreadStatus() int {
	if runtime.GOOS == "windows" {
		return 404
	}
	return 200
}

// While directories and links are swapped, the handler never follows a link out of the root.
func TestSwappedSymlinksLeadNowhere(t *testing.T) {
	detections(t, func(t *testing.T, c files.Config) {
		t.Parallel()
		s := newSite(t, "d/secret.txt", "harmless", "real/secret.txt", "harmless")
		s.must(os.Symlink("../outside", s.path("link")))
		if c.Listing = true; c.ByPath {
			c.DisableSymlinks = "on"
		}
		h := s.handler(c)
		stop := make(chan struct{})
		var swapper, askers sync.WaitGroup
		swapper.Go(func() {
			for {
				for _, from := range []string{"link", "real"} {
					select {
					case <-stop:
						return
					default:
					}
					// d -> old, from -> d, d -> from, old -> d
					for _, move := range [][2]string{{"d", "old"}, {from, "d"}, {"d", from}, {"old", "d"}} {
						if err := os.Rename(s.path(move[0]), s.path(move[1])); err != nil {
							t.Error(err)
							return
						}
					}
				}
			}
		})
		for _, ours := range hosts(t, h) {
			askers.Go(func() {
				for range 100 {
					for _, path := range []string{"/d/secret.txt", "/d/"} {
						a, err := ours.try("GET", path)
						testkit.Check(t, err)
						if strings.Contains(a.body, secret) || a.status >= 500 {
							t.Errorf("%s: %d %q", path, a.status, a.body)
							return
						}
					}
				}
			})
		}
		askers.Wait()
		close(stop)
		swapper.Wait()
	})
}
