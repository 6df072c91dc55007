package accesslog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/internal/testkit"
)

// line returns the log line of a request to a handler.
func line(t *testing.T, f accesslog.Format, r *http.Request, h http.HandlerFunc) string {
	t.Helper()
	var out bytes.Buffer
	accesslog.Handler(h, f, &out).ServeHTTP(plain{make(http.Header)}, r)
	text := out.String()
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		t.Fatalf("not a line: %q", text)
	}
	return text
}

// plain is a ResponseWriter that discards everything.
type plain struct{ header http.Header }

func (p plain) Header() http.Header       { return p.header }
func (plain) WriteHeader(int)             {}
func (plain) Write(b []byte) (int, error) { return len(b), nil }

func request(method, target string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = "192.0.2.7:1234"
	r.Header.Set("Referer", "http://example.org/")
	r.Header.Set("User-Agent", "test/1")
	return r
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

const someTime = `\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]`

func TestLinesHaveTheirFormat(t *testing.T) {
	for _, c := range []struct {
		format accesslog.Format
		want   string
	}{
		{accesslog.Common, `^192\.0\.2\.7 - - ` + someTime + ` "GET /a\?b HTTP/1\.1" 200 5\n$`},
		{accesslog.Combined, `^192\.0\.2\.7 - - ` + someTime +
			` "GET /a\?b HTTP/1\.1" 200 5 "http://example\.org/" "test/1"\n$`},
		{accesslog.JSON, `^{"time":"[^"]*","client":"192\.0\.2\.7","method":"GET","host":"example\.com","uri":"/a\?b","protocol":"HTTP/1\.1",` +
			`"status":200,"bytes":5,"duration_us":\d+,"referer":"http://example\.org/","user_agent":"test/1"}\n$`},
	} {
		if got := line(t, c.format, request("GET", "/a?b"), hello); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s: %q", c.format, got)
		}
	}
}

// Text of a client never ends a field or a line.
func TestClientCannotForgeLines(t *testing.T) {
	r := request("GET", "/")
	r.RequestURI = "/\" 200 1\n\x00\x7f\\é"
	r.Header.Set("User-Agent", "\"\r\n\t\\ \xff ü")
	r.Header.Set("Referer", "")
	got := line(t, accesslog.Combined, r, hello)
	want := `"GET /\x22 200 1\x0A\x00\x7F\x5C\xC3\xA9 HTTP/1.1" 200 5 "-" "\x22\x0D\x0A\x09\x5C \xFF \xC3\xBC"` + "\n"
	if !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at its end", got, want)
	}
	var object map[string]any
	text := line(t, accesslog.JSON, r, hello)
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if object["uri"] != r.RequestURI || object["user_agent"] != "\"\r\n\t\\ \ufffd ü" {
		t.Errorf("got %q and %q", object["uri"], object["user_agent"])
	}
	if at, err := time.Parse(time.RFC3339, object["time"].(string)); err != nil || time.Since(at) > time.Hour {
		t.Errorf("%v, %v", at, err)
	}
}

func FuzzJSON(f *testing.F) {
	f.Add("/a", "b")
	f.Add("\x00\xff\"\\", "\u2028\ud7ff")
	f.Fuzz(func(t *testing.T, uri, agent string) {
		r := request("GET", "/")
		r.RequestURI = uri
		r.Header.Set("User-Agent", agent)
		text := line(t, accesslog.JSON, r, hello)
		if !json.Valid([]byte(text)) {
			t.Errorf("not JSON: %q", text)
		}
		text = line(t, accesslog.Combined, r, hello)
		if n := strings.Count(text, `"`); n != 6 {
			t.Errorf("%d quotes in %q", n, text)
		}
	})
}

func TestStatusAndBytesAreThoseOfTheResponse(t *testing.T) {
	for _, c := range []struct {
		name, method, want string
		handler            http.HandlerFunc
	}{
		{"nothing", "GET", " 200 -\n", func(http.ResponseWriter, *http.Request) {}},
		{"status", "GET", " 404 4\n", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write([]byte("none"))
		}},
		{"HEAD", "HEAD", " 200 -\n", hello},
		{"reader", "GET", " 200 7\n", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(strings.NewReader("seven and more"), 7))
		}},
		{"flush", "GET", " 200 -\n", func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			w.WriteHeader(http.StatusTeapot) // too late
		}},
	} {
		if got := line(t, accesslog.Common, request(c.method, "/"), c.handler); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: got %q, want %q at its end", c.name, got, c.want)
		}
	}
}

// A request that ends in a panic is logged, and the panic continues.
func TestPanicIsLogged(t *testing.T) {
	for want, wrote := range map[string]bool{" 500 -\n": false, " 200 2\n": true} {
		var out bytes.Buffer
		h := accesslog.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if wrote {
				_, _ = w.Write([]byte("ok"))
			}
			panic(http.ErrAbortHandler)
		}), accesslog.Common, &out)
		func() {
			defer func() {
				if recover() != http.ErrAbortHandler { //nolint:errorlint // the same value
					t.Error("missing panic")
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), request("GET", "/"))
		}()
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("got %q, want %q at its end", &out, want)
		}
	}
}

// The log hides no feature of a server's ResponseWriter: sending files, hijacking, deadlines.
func TestWriterHidesNoFeature(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(name, []byte("from a file"), 0o600))
	direct := make(chan bool, 1)
	probe := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&copier{w, direct}, r) })
	}
	server := httptest.NewServer(probe(accesslog.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		file, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		if _, err := io.Copy(w, file); err != nil {
			t.Error(err)
		}
	}), accesslog.Common, io.Discard)))
	defer server.Close()
	resp, err := http.Get(server.URL)
	testkit.Must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || string(b) != "from a file" || !<-direct {
		t.Errorf("%q, %v", b, err)
	}
}

// copier records whether ReadFrom was called.
type copier struct {
	http.ResponseWriter
	direct chan bool
}

func (c *copier) ReadFrom(src io.Reader) (int64, error) {
	_, isFile := src.(syscall.Conn)
	c.direct <- isFile
	return c.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

func (c *copier) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// The line about lost lines has the format of any other.
func TestLineAboutLostLinesIsParsable(t *testing.T) {
	why := errors.New(`disk "full"`)
	want := regexp.MustCompile(`^- - - ` + someTime + ` "12 lines lost: disk \\x22full\\x22" 0 -( "-" "-")?\n$`)
	for _, f := range []accesslog.Format{accesslog.Common, accesslog.Combined} {
		if got := string(f.Lost(12, why)); !want.MatchString(got) {
			t.Errorf("%s: %q", f, got)
		}
	}
	var object struct {
		Lost int
		Why  string
	}
	if err := json.Unmarshal(accesslog.JSON.Lost(12, why), &object); err != nil || object.Lost != 12 ||
		object.Why != why.Error() {
		t.Errorf("%+v, %v", object, err)
	}
}

func TestParseFormatRejectsUnknownNames(t *testing.T) {
	for _, name := range []string{"common", "combined", "json"} {
		if f, err := accesslog.ParseFormat(name); err != nil || string(f) != name {
			t.Errorf("%s: %q, %v", name, f, err)
		}
	}
	if _, err := accesslog.ParseFormat("JSON"); err == nil {
		t.Error("no error")
	}
}

func BenchmarkHandler(b *testing.B) {
	for _, f := range []accesslog.Format{accesslog.Combined, accesslog.JSON} {
		b.Run(string(f), func(b *testing.B) {
			h, r, w := accesslog.Handler(http.HandlerFunc(hello), f, io.Discard), request("GET", "/"),
				plain{make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
