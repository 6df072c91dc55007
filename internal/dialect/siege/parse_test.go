package siege_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/dialect/siege"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

func parse(t *testing.T, line string) *siege.Command {
	t.Helper()
	c, err := siege.Parse(strings.Fields(line))
	testkit.Must(t, err)
	return c
}

// file writes a temporary file and returns its name.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

func TestPublishedCommandLineIsAccepted(t *testing.T) {
	p := parse(t, "-c 200 -t 20s http://127.0.0.1:8080/Hello/100").Plan()
	if p.URL != "http://127.0.0.1:8080/Hello/100" || p.Connections != 200 || p.Duration != 20*time.Second ||
		p.PerConnection != 1 ||
		p.Method != "GET" || p.Think != 0 || p.Timeout != 30*time.Second || p.Version != load.HTTP11 ||
		len(p.List) != 0 {
		t.Errorf("got %+v", p)
	}
	want := "Host: 127.0.0.1:8080|Accept: */*|Accept-Encoding: gzip, deflate|User-Agent: Mozilla/5.0 (pc-x86_64-linux-gnu) Siege/4.0.7|Connection: close"
	if got := strings.Join(p.Header, "|"); got != want {
		t.Errorf("got header %q", got)
	}
}

func TestFlagsSetThePlan(t *testing.T) {
	for _, c := range []struct {
		line string
		ok   func(p *load.Plan) bool
	}{
		{"h", func(p *load.Plan) bool {
			return p.URL == "http://h:80/" && p.Header[0] == "Host: h" && p.Connections == 25 && p.Duration == 0 &&
				p.Requests == 25*10301062
		}},
		{"-r 10 -c3 h", func(p *load.Plan) bool { return p.Requests == 30 && p.Samples == 30 }},
		{"-r once -c3 h", func(p *load.Plan) bool { return p.Requests == 3 }},
		{"-t5 h", func(p *load.Plan) bool { return p.Duration == 5*time.Minute }},
		{"-t 20S h", func(p *load.Plan) bool { return p.Duration == 20*time.Second }},
		{"--time=1H h", func(p *load.Plan) bool { return p.Duration == time.Hour }},
		{"h -t 2m -r 7", func(p *load.Plan) bool { return p.Duration == 2*time.Minute && p.Requests > 1e6 }},
		{"-d 1.5 h", func(p *load.Plan) bool { return p.Think == 1500*time.Millisecond }},
		{"-d 1.5 -b h", func(p *load.Plan) bool { return p.Think == 0 }},
		{"-c 0 h", func(p *load.Plan) bool { return p.Connections == 1 }},
		{"-c 300 h", func(p *load.Plan) bool { return p.Connections == 255 }},
		{"https://user:secret@[::1]:8443/a{b#c", func(p *load.Plan) bool {
			return p.URL == "https://[::1]:8443/a%7Bb" && p.Header[0] == "Host: [::1]:8443" && p.TLS.InsecureSkipVerify
		}},
		{"-i -f " + file(t, "h/a\nh/b"), func(p *load.Plan) bool {
			return p.Shuffle && len(p.List) == 2 && p.List[1].URL == "/b"
		}},
		{"-H X-A:b -H Host:other --user-agent=me h", func(p *load.Plan) bool {
			return strings.Join(p.Header, "|") == "Accept: */*|Accept-Encoding: gzip, deflate|User-Agent: me|X-A:b|Host:other|Connection: close"
		}},
		{"-H Accept:text/html h", func(p *load.Plan) bool {
			return strings.Join(p.Header[:2], "|") == "Host: h|Accept-Encoding: gzip, deflate"
		}},
	} {
		if p := parse(t, c.line).Plan(); !c.ok(&p) {
			t.Errorf("%s: got %+v", c.line, p)
		}
	}
}

func TestPostSendsBodyAndType(t *testing.T) {
	c, err := siege.Parse([]string{"-T", "text/csv", "http://h:81/form POST a=b&c=d e"})
	testkit.Must(t, err)
	p := c.Plan()
	if want := "Connection: close|Content-Type: text/csv|Content-Length: 9"; p.Method != "POST" ||
		p.Body != "a=b&c=d e" || p.URL != "http://h:81/form" || strings.Join(p.Header[4:], "|") != want {
		t.Errorf("got %+v", p)
	}
}

func TestURLFilesAreParsed(t *testing.T) {
	t.Setenv("TARE_TEST_HOST", "h:8080")
	data := file(t, "  x=1\n")
	urls := file(t, `# of all that there is
HOST=$TARE_TEST_HOST
PAGE=page.html

http://h:8080/one?a=b#part
  h:8080/$(PAGE)
h:8080/${PAGE}?b=c  POST name=value  
http://h:8080/two DELETE
http://h:8080/three PUT <`+data+`
`)
	p := parse(t, "-f "+urls).Plan()
	var got []string
	for _, r := range p.List {
		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.Body, " ", strings.Join(r.Header, ", ")))
	}
	want := []string{
		"GET /one?a=b  ",
		"GET /page.html  ",
		"POST /page.html?b=c name=value Content-Type: application/x-www-form-urlencoded, Content-Length: 10",
		"DELETE /two  Content-Type: application/x-www-form-urlencoded, Content-Length: 0",
		"PUT /three x=1 Content-Type: application/x-www-form-urlencoded, Content-Length: 3",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRCFileSetsDefaults(t *testing.T) {
	rc := file(t, `# a comment
verbose = true
HOME_PAGE = http://h:81/
url = $(HOME_PAGE)
concurrent = 7 # users
reps = 3
delay = 0.5
connection = keep-alive
accept-encoding = *
user-agent: me
protocol = HTTP/1.0
timeout = 9
header = X-A: b
limit = 999
cache = false
show-logfile = true
`)
	p := parse(t, "-c 4 -R "+rc).Plan()
	if p.URL != "http://h:81/" || p.Connections != 4 || p.Requests != 12 || p.Think != 500*time.Millisecond ||
		p.Timeout != 9*time.Second ||
		p.Version != load.HTTP10 || p.PerConnection != 0 ||
		strings.Join(p.Header, "|") != "Host: h:81|Accept: */*|Accept-Encoding: *|User-Agent: me|X-A: b|Connection: keep-alive" {
		t.Errorf("got %+v", p)
	}
	if p := parse(t, "-c 900 h -R "+rc).Plan(); p.Connections != 900 || p.URL != "http://h:80/" {
		t.Errorf("got %+v", p)
	}
}

func TestInvalidCommandLinesAreRejected(t *testing.T) {
	several := file(t, "http://a/\n\nhttp://b/")
	empty := file(t, "# nothing\n")
	login := file(t, "verbose = true\nlogin = me:secret\n")
	broken := file(t, "time = soon")
	for _, c := range []struct{ line, want string }{
		{"", "siege: want a URL, or a file of URLs with -f"},
		{"-r 0 h", `flag -r: "0": want an integer from 1 to`},
		{"-t 0s h", `flag -t: "0s": want a number and S, M or H, such as 20S`},
		{"-t 20ss h", `flag -t: "20ss": want a number`},
		{"--delay=-1 h", `flag --delay: "-1": want a number of seconds`},
		{"-g h", "flag -g is not supported; siege's unsupported flags are -C, -D, -g, -p"},
		{"--bogus h", `unknown flag "--bogus"; siege's unsupported flags are`},
		{"-H nothing h", `flag -H: "nothing": want "Name: value"`},
		{"ftp://h/", `siege: URL "ftp://h/": scheme "ftp" is not supported: want http or https`},
		{"http://h:x/", `port "x": want a number from 1 to 65535`},
		{"http://:80/", "want a host"},
		{"-f /nonexistent", "siege: read the file of URLs: open /nonexistent"},
		{"-R /nonexistent h", "siege: read the file of -R: open /nonexistent"},
		{"-f " + empty, ": no URL"},
		{"-f " + several, `:3: server "b:80" differs from the first URL's: only one is supported`},
		{"h -R " + login, ":2: login: login is not supported"},
		{"h -R " + broken, `:1: time: "soon": want a number and S, M or H`},
	} {
		if _, err := siege.Parse(strings.Fields(c.line)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.line, err, c.want)
		}
	}
	if _, err := siege.Parse([]string{"http://h/ POST <" + filepath.Join(t.TempDir(), "none")}); err == nil ||
		!strings.Contains(err.Error(), "/none: no such file") {
		t.Errorf("got %v", err)
	}
}
