package front_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// loggedBy returns a front whose location / has a log with a format of $uri and $status.
func loggedBy(t *testing.T, l conf.Log, change func(s *conf.Settings), options ...front.Option) (*testClient,
	*front.Handler) {
	t.Helper()
	l.Format = "short"
	s := conf.Settings{Logs: []conf.Log{l}}
	if change != nil {
		change(&s)
	}
	c := oneHost(conf.Location{Path: "/", Settings: &s, Steps: []conf.Step{conf.Return{Status: 200}}})
	c.LogFormats = []conf.LogFormat{{Name: "short", Text: "$uri:$status", Escape: "none"}}
	h := newFront(t, c, options...)
	return serveHandler(t, h), h
}

// Variables in the path choose the file of a line, and no value leads elsewhere.
func TestLogPathHasVariables(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "logs"), 0o700))
	errorLog := filepath.Join(dir, "errors")
	a, _ := loggedBy(t, conf.Log{Path: "logs/${arg_f}.log", Dir: dir}, func(s *conf.Settings) {
		s.ErrorLog = &conf.ErrorLog{Path: errorLog, Level: "crit"}
	})
	for _, path := range []string{"/1?f=a", "/2?f=b", "/x?f=../out", "/%00logs/y%00?f=a", "/3?f=a",
		"/4?f=none/a"} {
		a.get(path)
	}
	if got := awaitLines(t, filepath.Join(dir, "logs/a.log"), 2); got[0] != "/1:200\n" || got[1] != "/3:200" {
		t.Errorf("%q", got)
	}
	if got := awaitLines(t, filepath.Join(dir, "logs/b.log"), 1); got[0] != "/2:200" {
		t.Errorf("%q", got)
	}
	want := `access_log: invalid path "` + dir + `/logs/../out.log"`
	if got := awaitLines(t, errorLog, 1); !strings.Contains(got[0], want) {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "out.log")); err == nil {
		t.Error("a client has chosen a file elsewhere")
	}
}

// Lines of both logs are messages of syslog.
func TestLogsGoToSyslog(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	to := "syslog:server=" + server.LocalAddr().String() + ",facility=user,tag=web,nohostname"
	a, _ := loggedBy(t, conf.Log{Path: to + ",severity=notice"}, func(s *conf.Settings) {
		s.ErrorLog = &conf.ErrorLog{Path: to, Level: "debug"}
	})
	a.get("/a")
	var got []string
	b := make([]byte, 1<<10)
	must(t, server.SetReadDeadline(time.Now().Add(maxWait)))
	for range 3 {
		n, _, err := server.ReadFrom(b)
		must(t, err)
		start, text, _ := strings.Cut(string(b[:n]), " web: ")
		if _, err := time.Parse(time.Stamp, start[strings.IndexByte(start, '>')+1:]); err != nil {
			t.Error(err)
		}
		got = append(got, start[:strings.IndexByte(start, '>')]+text)
	}
	all := strings.Join(got, "\n") + "\n"
	for _, want := range []string{"<13/a:200\n", "<15", " [debug] ", "http finalize request: 200"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

// Subrequests are logged where log_subrequest says so.
func TestSubrequestsAreLogged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	s := conf.Settings{Logs: []conf.Log{{Path: name, Format: "short"}}}
	checked, silent := s, s
	checked.LogSubrequest = true
	at := func(path string, s conf.Settings, status int) conf.Location {
		return conf.Location{Path: path, Settings: &s, Steps: []conf.Step{conf.Return{Status: status}}}
	}
	main := conf.Settings{AuthRequest: &conf.AuthRequest{URI: "/checked"},
		Mirror: &conf.Mirror{URIs: []string{"/silent"}}}
	c := oneHost(conf.Location{Path: "/", Settings: &main, Empty: true}, at("/checked", checked, 204),
		at("/silent", silent, 200))
	c.LogFormats = []conf.LogFormat{{Name: "short", Text: "$uri:$status"}}
	h := newFront(t, c)
	if got := serveHandler(t, h).get("/x").status; got != 200 {
		t.Fatal(got)
	}
	if got := awaitLines(t, name, 1); len(got) != 1 || got[0] != "/checked:204" {
		t.Errorf("%q", got)
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
		must(t, os.Rename(l.Path, l.Path+".old"))
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
	if err := <-result; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), s.Logs[0].Path) {
		t.Errorf("%v", err)
	}
}

// No client forges a line of an error log, or controls the terminal that shows it.
func TestErrorLogIsPrintable(t *testing.T) {
	dir := t.TempDir()
	program := new(testkit.Log)
	name := filepath.Join(dir, "errors")
	s := conf.Settings{ErrorLog: &conf.ErrorLog{Path: name, Level: "info"}}
	s.Password = &conf.Password{Realm: "r", File: conf.Text(dir + "/none$uri")}
	s.Logs = []conf.Log{{Path: dir + "/none$uri.log"}}
	h := newFront(t, oneHost(conf.Location{Path: "/", Settings: &s, Empty: true}),
		front.LogErrors(log.New(program, "", 0)))
	a := serveHandler(t, h)
	a.get("/%0dforged%1b%5b2J%7f%ffé%c2%9b", "Authorization", "Basic YTpi")
	a.get("/%0aforged", "Authorization", "Basic YTpi")
	const path = `/none/\rforged\x1b[2J\x7f\xffé\u009b`
	all := awaitLines(t, name, 3) // the second path is not one of a log
	for i, want := range []string{path + ": no such file", `/none/\nforged: no such file`,
		`invalid path "` + dir + `/none/\nforged.log"`} {
		if !strings.Contains(all[i], want) {
			t.Errorf("no %q in %q", want, all[i])
		}
	}
	testkit.WaitFor(t, "the line about the log",
		func() bool { return strings.Contains(program.String(), path+".log: no such file") })
}

// As in nginx a file of a log is only made where there is a root for it.
func TestLogsAreMadeForRootsOnly(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "sites/a"), 0o700))
	errorLog := filepath.Join(dir, "errors")
	a, _ := loggedBy(t, conf.Log{Path: dir + "/${arg_f}.log"}, func(s *conf.Settings) {
		s.Files.Root = conf.Text(dir + "/sites/$arg_f")
		s.ErrorLog = &conf.ErrorLog{Path: errorLog}
	})
	a.get("/1?f=invented")
	a.get("/2?f=a")
	awaitLines(t, filepath.Join(dir, "a.log"), 1)
	want := `access_log: testing "` + dir + `/sites/invented" existence failed`
	if got := awaitLines(t, errorLog, 1); !strings.Contains(got[0], want) {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "invented.log")); err == nil {
		t.Error("a client has made a file")
	}
}
