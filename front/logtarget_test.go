package front_test

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
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
	c := oneHost(conf.Location{Path: "/", Settings: s, Steps: []conf.Step{conf.Return{Status: 200}}})
	c.LogFormats = []conf.LogFormat{{Name: "short", Text: "$uri:$status", Escape: "none"}}
	h := newFront(t, c, options...)
	return serveHandler(t, h), h
}

// A compressed log can be read while it grows, and after it was reopened.
func TestLogIsCompressed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log.gz")
	a, h := loggedBy(t, conf.Log{Path: name, Gzip: 9, Flush: time.Millisecond}, nil)
	for i := range 3 {
		a.get("/a")
		awaitFile(t, name, func([]byte) bool {
			f, err := os.Open(name)
			must(t, err)
			defer f.Close()
			z, err := gzip.NewReader(f)
			if err != nil {
				return false
			}
			b, err := io.ReadAll(z)
			return err == nil && string(b) == strings.Repeat("/a:200\n", i+1)
		})
		must(t, h.ReopenLogs(context.Background()))
	}
}

// Variables in the path choose the file of a line, and no value leads elsewhere.
func TestLogPathHasVariables(t *testing.T) {
	for _, cache := range []accesslog.Cache{{}, {Max: 1, MinUses: 1, Inactive: time.Hour, Valid: time.Hour}} {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, "logs"), 0o700))
		errorLog := filepath.Join(dir, "errors")
		a, _ := loggedBy(t, conf.Log{Path: "logs/${arg_f}.log", Dir: dir}, func(s *conf.Settings) {
			s.LogCache, s.ErrorLog = cache, &conf.ErrorLog{Path: errorLog, Level: "crit"}
		}, quiet())
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
		return conf.Location{Path: path, Settings: s, Steps: []conf.Step{conf.Return{Status: status}}}
	}
	main := conf.Settings{AuthRequest: &conf.AuthRequest{URI: "/checked"},
		Mirror: &conf.Mirror{URIs: []string{"/silent"}}}
	c := oneHost(conf.Location{Path: "/", Settings: main, Empty: true}, at("/checked", checked, 204),
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
