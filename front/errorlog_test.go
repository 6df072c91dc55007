package front_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/connection"
)

// onNumbered serves each request as the first one of a connection with a number.
func onNumbered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(connection.With(r.Context(), new(openedAt))))
	})
}

// Lines about what programs such as fail2ban look for are nginx's. The patterns are those of
// fail2ban's filters, without its own placeholders.
func TestErrorLogCanBeSearchedLikeNginxs(t *testing.T) {
	const prefix, client = `^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[[a-z]+\] \d+#\d+: \*\d+ `, `, client: \S+, server: \S*, `
	dir := t.TempDir()
	log, passwords, root := filepath.Join(dir, "error.log"), filepath.Join(dir, "passwords"), filepath.Join(dir, "root")
	must(t, os.Mkdir(root, 0o700))
	must(t, os.WriteFile(passwords, []byte("known:{PLAIN}secret\n"), 0o600))
	s := conf.Settings{ErrorLog: &conf.ErrorLog{Path: log, Level: "info"}, Files: conf.Files{Root: conf.Text(root)}}
	at := func(path string, change func(s *conf.Settings)) conf.Location {
		own := s
		change(&own)
		return conf.Location{Path: path, Settings: &own}
	}
	limited := func(path string, change func(s *conf.Settings)) conf.Location {
		l := at(path, change)
		l.Empty = true
		return l
	}
	c := oneHost(at("/", func(*conf.Settings) {}),
		limited("/limited", func(s *conf.Settings) { s.Requests = []conf.RequestLimit{{Zone: "one"}} }),
		limited("/delayed", func(s *conf.Settings) {
			s.Requests, s.RequestDryRun = []conf.RequestLimit{{Zone: "one", Burst: 9}}, true
		}),
		at("/closed", func(s *conf.Settings) { s.Access = []conf.AccessRule{{Deny: true}} }),
		at("/secret", func(s *conf.Settings) {
			s.Password = &conf.Password{Realm: "r", File: conf.Text(passwords)}
		}))
	c.Requests = []conf.Zone{{Name: "one", Key: "$host", Rate: 0.01}}
	a := serveHandler(t, onNumbered(newFront(t, c)))
	patterns := []string{
		prefix + `open\(\) "[^"]+/none\.php" failed \(2: No such file or directory\)` + client + `request: "GET /none\.php `,
		prefix + `directory index of "[^"]+/" is forbidden` + client,
		prefix + `"[^"]+/missing/index\.html" is not found \(2: No such file or directory\)` + client,
		prefix + `limiting requests, excess: [\d\.]+ by zone "one"` + client,
		prefix + `delaying request, dry run, excess: [\d\.]+, by zone "one"` + client,
		prefix + `access forbidden by rule` + client,
		prefix + `no user/password was provided for basic authentication` + client,
		prefix + `user "other" was not found in "[^"]*"` + client + `request: "\S+ \S+ HTTP/\d+\.\d+", host: "\S+"$`,
		prefix + `user "known": password mismatch` + client,
	}
	for _, path := range []string{"/none.php", "/", "/missing/", "/limited", "/limited", "/delayed", "/closed",
		"/secret"} {
		a.get(path)
	}
	a.get("/secret", "Authorization", "Basic b3RoZXI6c2VjcmV0") // other:secret
	a.get("/secret", "Authorization", "Basic a25vd246eA==")     // known:x
	for i, line := range awaitLines(t, log, len(patterns)) {
		if i >= len(patterns) || !regexp.MustCompile(patterns[i]).MatchString(strings.TrimSpace(line)) {
			t.Errorf("line %d: %q", i, line)
		}
	}
}

// Levels of limits are obeyed, and each log has the lines of its level.
func TestLevelsOfErrorLogs(t *testing.T) {
	dir := t.TempDir()
	one := func(name, level string, next *conf.ErrorLog) *conf.ErrorLog {
		return &conf.ErrorLog{Path: filepath.Join(dir, name), Level: level, Next: next}
	}
	s := conf.Settings{
		ErrorLog: one("debug", "debug", one("notice", "notice", one("warn", "warn", nil))), RequestLogLevel: "notice",
		Requests: []conf.RequestLimit{{Zone: "one"}},
	}
	c := oneHost(conf.Location{Path: "/x", Settings: &s, Empty: true})
	c.Requests = []conf.Zone{{Name: "one", Key: "$host", Rate: 0.01}}
	h := newFront(t, c)
	a := serveHandler(t, onNumbered(h))
	if first, second := a.get("/x/y").status, a.get("/x/y").status; first != 200 || second != 503 {
		t.Fatalf("%d, then %d", first, second)
	}
	all := strings.Join(awaitLines(t, filepath.Join(dir, "debug"), 5), "")
	for text, n := range map[string]int{`[debug] `: 4, `using configuration "/x" for "/x/y"`: 2,
		"http finalize request: 503, ": 1, "[notice] ": 1} {
		if got := strings.Count(all, text); got != n {
			t.Errorf("%d times %q:\n%s", got, text, all)
		}
	}
	if got := awaitLines(t, filepath.Join(dir, "notice"), 1); len(got) != 1 || !strings.Contains(got[0], "limiting") {
		t.Errorf("%q", got)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "warn")); err != nil || len(got) > 0 {
		t.Errorf("%q, %v", got, err)
	}
}
