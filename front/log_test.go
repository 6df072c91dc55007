package front_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/spool"
	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/testkit"
)

// Panics, streams, hijacked connections and empty responses are logged.
func TestEveryRequestIsLogged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	us := frontOf(t, conf.Settings{Logs: []conf.Log{{Path: name}}}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/late":
			_, _ = io.WriteString(w, "late")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/over":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			conn.Close()
		case "/early":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
			w.WriteHeader(http.StatusOK)
		case "/copy":
			_, _ = io.Copy(w, strings.NewReader("copied"))
		}
	})
	for i, path := range []string{"/panic", "/late", "/over"} {
		conn := dial(t, "unix", us.socket, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path))
		_, _ = io.ReadAll(conn)
		conn.Close()
		awaitLines(t, name, i+1) // a handler closes a hijacked connection before its request ends
	}
	us.get("/early")
	us.get("/copy")
	us.get("/nothing")
	lines := awaitLines(t, name, 6)
	for i, want := range []string{`/panic HTTP/1.1" 500 0 `, `/late HTTP/1.1" 200 4 `, `/over HTTP/1.1" 101 0 `,
		`/early HTTP/1.1" 418 0 `, `/copy HTTP/1.1" 200 6 `, `/nothing HTTP/1.1" 200 0 `} {
		testkit.Contains(t, lines[i], want)
	}
}

// A log that was renamed continues in a new file after ReopenLogs, and after a reload.
func TestRenamedLogIsReopened(t *testing.T) {
	dir := t.TempDir()
	name, old := filepath.Join(dir, "log"), filepath.Join(dir, "old")
	c := parseConf(t, "", "access_log "+name+"; return 200;")
	h := newFront(t, c)
	us := serveHandler(t, h)
	us.get("/1")
	awaitLines(t, name, 1)
	testkit.Must(t, os.Rename(name, old))
	testkit.Must(t, h.Reload(c))
	us.get("/2")
	awaitLines(t, old, 2)
	testkit.Must(t, h.ReopenLogs(t.Context()))
	us.get("/3")
	testkit.Contains(t, awaitLines(t, name, 1)[0], "/3")
	testkit.Must(t, os.RemoveAll(dir))
	testkit.Error(t, h.ReopenLogs(t.Context()), name)
	us.get("/4") // it continues with the open file
}

// shortLog is a format of logs.
const shortLog = "log_format short escape=none $uri:$status;"

// Variables in the path choose the file of a line, and no value leads elsewhere. As in nginx a file
// is only made where there is a root for it.
func TestLogPathHasVariables(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "logs"), 0o700))
	errorLog := filepath.Join(dir, "errors")
	a := serveConf(t, shortLog, strings.ReplaceAll(`error_log D/errors;
		location / { root D$arg_root; access_log D/logs/${arg_f}.log short; return 200; }`, "D", dir))
	for _, path := range []string{"/1?f=a", "/2?f=b", "/x?f=../out", "/%00logs/y%00?f=a", "/3?f=a",
		"/4?f=none/a", "/5?f=invented&root=/none"} {
		a.get(path)
	}
	testkit.Equal(t, awaitLines(t, filepath.Join(dir, "logs/a.log"), 2), []string{"/1:200\n", "/3:200"})
	testkit.Equal(t, awaitLines(t, filepath.Join(dir, "logs/b.log"), 1)[0], "/2:200")
	last := []byte(`access_log: testing "` + dir + `/none" existence failed`)
	lines := string(awaitFile(t, errorLog, func(b []byte) bool { return bytes.Contains(b, last) }))
	testkit.Contains(t, lines, `access_log: invalid path "`+dir+`/logs/../out.log"`)
	for _, name := range []string{"out.log", "logs/invented.log"} {
		testkit.Fails(os.Stat(filepath.Join(dir, name)))(t, "no such file", name)
	}
}

// Lines of both logs are messages of syslog.
func TestLogsGoToSyslog(t *testing.T) {
	server := testkit.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer server.Close()
	to := "syslog:server=" + server.LocalAddr().String() + ",facility=user,tag=web,nohostname"
	serveConf(t, shortLog, "access_log "+to+",severity=notice short; error_log "+
		to+" debug; location / { return 200; }").get("/a")
	var all string
	b := make([]byte, 1<<10)
	testkit.Must(t, server.SetReadDeadline(time.Now().Add(maxWait)))
	for range 3 {
		n, _, err := server.ReadFrom(b)
		testkit.Must(t, err)
		start, text, _ := strings.Cut(string(b[:n]), " web: ")
		priority, at, _ := strings.Cut(start, ">")
		testkit.Value(time.Parse(time.Stamp, at))(t)
		all += priority + text + "\n"
	}
	for _, want := range []string{"<13/a:200\n", "<15", " [debug] ", "http finalize request: 200"} {
		testkit.Contains(t, all, want)
	}
}

// A log whose file does not open does not keep others from being reopened.
func TestReopeningHangsForOneLogOnly(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	var hangs atomic.Bool
	open := func(path string) (io.WriteCloser, error) {
		if hangs.Load() && filepath.Base(path) == "hangs" {
			<-ctx.Done()
		}
		return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}
	s := conf.Settings{Logs: []conf.Log{{Path: filepath.Join(dir, "hangs")}}}
	for i := range 9 {
		s.Logs = append(s.Logs, conf.Log{Path: filepath.Join(dir, strconv.Itoa(i))})
	}
	h := newFront(t, oneHost(conf.Location{Path: "/", Settings: &s, Empty: true}), front.OpenLogs(open))
	for _, l := range s.Logs {
		testkit.Must(t, os.Rename(l.Path, l.Path+".old"))
	}
	hangs.Store(true)
	waits, cancel := context.WithCancel(ctx)
	result := make(chan error)
	go func() { result <- h.ReopenLogs(waits) }()
	for _, l := range s.Logs[1:] {
		awaitFile(t, l.Path, func([]byte) bool { return true })
	}
	cancel()
	// the others are open, but some may not have reported it before the cancellation
	err := <-result
	testkit.Is(t, err, context.Canceled)
	testkit.Error(t, err, s.Logs[0].Path)
}

// No client forges a line of an error log, or controls the terminal that shows it.
func TestErrorLogIsPrintable(t *testing.T) {
	dir := t.TempDir()
	program := new(testkit.Log)
	name := filepath.Join(dir, "errors")
	a := serveConf(t, "", strings.ReplaceAll(`error_log LOGS/errors info; access_log LOGS/none$uri.log;
		auth_basic r; auth_basic_user_file LOGS/none$uri; location / { empty_gif; }`, "LOGS", dir), front.LogErrors(log.New(program, "", 0)))
	a.get("/%0dforged%1b%5b2J%7f%ffé%c2%9b", "Authorization", "Basic YTpi")
	a.get("/%0aforged", "Authorization", "Basic YTpi")
	const path = `/none/\rforged\x1b[2J\x7f\xffé\u009b`
	all := awaitLines(t, name, 3) // the second path is not one of a log
	for i, want := range []string{path + ": no such file", `/none/\nforged: no such file`,
		`invalid path "` + dir + `/none/\nforged.log"`} {
		testkit.Contains(t, all[i], want)
	}
	testkit.WaitFor(t, "the line about the log",
		func() bool { return strings.Contains(program.String(), path+".log: no such file") })
}

// A log that blocks does not stop requests, and reports the lost lines in its own format. None of
// many files has such a line: it may concern the others.
func TestLostLinesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ path, escape, want string }{
			{"/p", "default", `"1 lines lost: the output accepts nothing, or too little"`},
			{"/p", "json", `"lost":1`},
			{"/p$arg_none", "default", ""},
		} {
			out := &blocked{gate: make(chan struct{})}
			h := confFront(t, "log_format f escape="+c.escape+" $arg_x;", "access_log "+c.path+" f; return 204;", nil,
				front.OpenLogs(func(string) (io.WriteCloser, error) { return out, nil }))
			long := strings.Repeat("x", spool.DefaultLimit)
			start := time.Now()
			for range 3 {
				get(t, h, "/?x="+long)
				synctest.Wait()
			}
			testkit.Equal(t, time.Since(start), time.Second, "the wait of requests")
			close(out.gate)
			synctest.Wait()
			testkit.Check(t, h.Close())
			text := out.text.String()
			if !strings.Contains(text, c.want) || c.want == "" && strings.Contains(text, "lost") {
				t.Errorf("it ends in %q, want %q", text[max(0, len(text)-100):], c.want)
			}
		}
	})
}

// blocked blocks until its gate is closed.
type blocked struct {
	gate chan struct{}
	text strings.Builder
}

func (s *blocked) Write(p []byte) (int, error) { <-s.gate; return s.text.Write(p) }
func (*blocked) Close() error                  { return nil }

// onNumbered serves each request as the first one of a connection with a number.
func onNumbered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(connection.With(r.Context(), new(openedAt))))
	})
}

// Lines about what programs such as fail2ban look for are nginx's. The patterns are those of
// fail2ban's filters, without its own placeholders. Levels are nginx's, and foreign data is quoted.
func TestErrorLogCanBeSearchedLikeNginxs(t *testing.T) {
	const client = `, client: \S+, server: \S*, `
	dir := t.TempDir()
	log := filepath.Join(dir, "error.log")
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "root"), 0o700))
	testkit.Must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "passwords"), []byte("known:{PLAIN}secret\n"), 0o600))
	outer := "limit_req_zone $host zone=one:1m rate=1r/m; upstream u { server unix:LOGS/a; server unix:LOGS/b; } " +
		"proxy_cache_path LOGS/cache keys_zone=z:1m;"
	h := confFront(t, strings.ReplaceAll(outer, "LOGS", dir), strings.ReplaceAll(`error_log LOGS/error.log info; root LOGS/root; server_name front.test;
		location /limited { limit_req zone=one; empty_gif; }
		location /delayed { limit_req zone=one burst=9; limit_req_dry_run on; empty_gif; }
		location /closed { deny all; }
		location /beside { alias LOGS/root; }
		location /proxied { client_max_body_size 1; proxy_pass http://u; proxy_next_upstream off; }
		location /secret { auth_basic r; auth_basic_user_file LOGS/passwords; }
		location /to/none { proxy_pass http://unix:LOGS/passwords/below; }
		location /to/loop { proxy_pass http://unix:LOGS/loop; }
		location /to/away { proxy_pass http://127.0.0.1:1; proxy_bind 192.0.2.1; }
		location /to/file { proxy_pass http://unix:LOGS/passwords; }
		location /emptied { error_page 421 =204 /stored; return 421; }
		location /stored { proxy_pass http://app; proxy_cache z; proxy_cache_valid 1h; }
		location /to/port { proxy_pass http://127.0.0.1:1; }`, "LOGS", dir), handlers{"app": echo})
	a := serveHandler(t, onNumbered(h))
	at := func(level, text string) string {
		return `^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[` + level + `\] \d+#\d+: \*\d+ ` + text
	}
	failed := `upstream: tare: connecting to .*` + client + `request: "GET /\S+ HTTP/1\.1", upstream: "http://\S+", host: `
	var patterns []string
	for _, c := range []struct {
		path, fields string
		patterns     []string // of the lines
	}{
		{"/none.php", "", []string{at("error", `open\(\) "[^"]+/none\.php" failed \(2: No such file or directory\)`+client+`request: "GET /none\.php `)}},
		{"/", "", []string{at("error", `directory index of "[^"]+/" is forbidden`+client)}},
		{"/missing/", "", []string{at("error", `"[^"]+/missing/index\.html" is not found \(2: No such file or directory\)`+client)}},
		{"/limited", "", nil}, {"/emptied", "", nil},
		{"/limited", "", []string{at("error", `limiting requests, excess: [\d\.]+ by zone "one"`+client)}},
		{"/delayed", "", []string{at("warn", `delaying request, dry run, excess: [\d\.]+, by zone "one"`+client)}},
		{"/closed/a\"\\\xff", `Referer: x"y`, []string{at("error",
			`access forbidden by rule, client: unix:, server: front\.test, `+
				`request: "GET /closed/a\\"\\\\\\xff HTTP/1\.1", host: "front\.test", referrer: "x\\"y"$`)}},
		{"/besides", "", []string{at("error", `"/besides" is not found \(2: No such file or directory\)`+client)}},
		{"/proxied", "", []string{at("crit", failed), at("warn", `upstream: server temporarily disabled`+client)}},
		{"/proxied", "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0", []string{
			at("error", `client intended to send too large chunked body: 1\+1 bytes`+client)}},
		{"/secret", "", []string{at("info", `no user/password was provided for basic authentication`+client)}},
		{"/secret", "Authorization: Basic b3RoZXI6c2VjcmV0", []string{ // other:secret
			at("error", `user "other" was not found in "[^"]*"`+client+`request: "\S+ \S+ HTTP/\d+\.\d+", host: "\S+"$`)}},
		{"/secret", "Authorization: Basic a25vd246eA==", []string{at("error",
			`user "known": password mismatch`+client)}}, // known:x
		// a connection that cannot be opened is critical, unless the server or the network is down
		{"/to/none", "", []string{at("crit", failed)}}, {"/to/loop", "", []string{at("crit", failed)}},
		{"/to/away", "", []string{at("crit", failed)}},
		{"/to/file", "", []string{at("error", failed)}}, {"/to/port", "", []string{at("error", failed)}},
	} {
		nc := dial(t, "unix", a.socket, "GET "+c.path+" HTTP/1.1\r\nHost: front.test\r\nConnection: close\r\nX-A: b\r\n"+c.fields+"\r\n\r\n")
		testkit.Value(io.ReadAll(nc))(t)
		patterns = append(patterns, c.patterns...)
	}
	for i, line := range awaitLines(t, log, len(patterns)) {
		testkit.Matches(t, strings.TrimSpace(line), patterns[i])
	}
}

// Levels of limits are obeyed, and each log has the lines of its level.
func TestLevelsOfErrorLogs(t *testing.T) {
	dir := t.TempDir()
	a := serveHandler(t, onNumbered(confFront(t, "limit_req_zone $host zone=one:1m rate=1r/m;", strings.ReplaceAll(`
		error_log LOGS/debug debug; error_log LOGS/notice notice; error_log LOGS/warn warn; limit_req_log_level notice;
		location /x { limit_req zone=one; empty_gif; }`, "LOGS", dir), nil)))
	a.get("/x/y").is(t, 200)
	a.get("/x/y").is(t, 503)
	all := strings.Join(awaitLines(t, filepath.Join(dir, "debug"), 5), "")
	for text, n := range map[string]int{`[debug] `: 4, `using configuration "/x" for "/x/y"`: 2,
		"http finalize request: 503, ": 1, "[notice] ": 1} {
		testkit.Equal(t, strings.Count(all, text), n, "lines with", text, "in", all)
	}
	got := awaitLines(t, filepath.Join(dir, "notice"), 1)
	testkit.Equal(t, len(got), 1, "lines of notices")
	testkit.Contains(t, got[0], "limiting")
	testkit.Equal(t, string(testkit.Value(os.ReadFile(filepath.Join(dir, "warn")))(t)), "")
}

// A reload with another ErrorLog changes where later errors go, also those of loggers that servers
// have already.
func TestErrorLogIsReplaced(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	config := func(path string) conf.Config {
		c := conf.Config{Hosts: []conf.Host{{}}}
		if path != "" {
			c.ErrorLog = &conf.ErrorLog{Path: path}
		}
		return c
	}
	var program bytes.Buffer
	h, err := front.New(config(first), front.LogErrors(log.New(&program, "tare: ", 0)))
	testkit.Must(t, err)
	logger := h.ErrorLogger()
	logger.Print("one")
	for i, path := range []string{first, second, filepath.Join(dir, "no", "folder"), ""} {
		testkit.Equal(t, h.Reload(config(path)) == nil, i != 2, path)
		logger.Print([]string{"two", "three", "four", "five"}[i])
	}
	testkit.Must(t, h.Close())
	for path, want := range map[string][]string{first: {"one", "two"}, second: {"three", "four"}} {
		lines := strings.SplitAfter(string(testkit.Value(os.ReadFile(path))(t)), "\n")
		testkit.Equal(t, len(lines), len(want)+1, path, lines)
		for i, text := range want {
			testkit.Contains(t, lines[i], fmt.Sprintf("[error] %d#0: %s\n", os.Getpid(), text), path)
		}
	}
	testkit.Equal(t, program.String(), "tare: five\n")
}

// openedAt is the information about a connection.
type openedAt struct {
	time.Time
	requests int
	number   connection.Number
}

func (o *openedAt) Opened() time.Time { return o.Time }
func (o *openedAt) CountRequest() int { o.requests++; return o.requests }

func (o *openedAt) Number(counter *atomic.Int64) int64 { return o.number.Of(counter) }

// $connection counts connections, and is the same for all requests of a connection.
func TestConnectionHasANumber(t *testing.T) {
	h := confFront(t, "", "return 200 $connection;", nil)
	one, two := &openedAt{Time: time.Now()}, &openedAt{Time: time.Now()}
	for i, c := range []struct {
		info *openedAt
		want string
	}{{one, "1"}, {one, "1"}, {two, "2"}, {one, "1"}, {nil, ""}} {
		r := httptest.NewRequest("GET", "/", nil)
		if c.info != nil {
			r = r.WithContext(connection.With(r.Context(), c.info))
		}
		testkit.Equal(t, responseTo(h, r).body, c.want, "request", i)
	}
}
