package ab_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/dialect/ab"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

func plan(t *testing.T, args ...string) load.Plan {
	t.Helper()
	c, err := ab.Parse(args)
	testkit.Must(t, err)
	return c.Plan()
}

func TestPublishedCommandLineIsAccepted(t *testing.T) {
	p := plan(t, "-k", "-c", "4000", "-n", "100000", "http://127.0.0.1:8080/hello/100?a=b")
	if p.URL != "http://127.0.0.1:8080/hello/100?a=b" || p.Connections != 4000 || p.Requests != 100000 ||
		p.Samples != 100000 ||
		p.Version != load.HTTP10 || p.Method != "GET" || p.Timeout != 30*time.Second || p.Duration != 0 ||
		p.PerConnection != 0 {
		t.Errorf("got %+v", p)
	}
	want := "Connection: Keep-Alive|Host: 127.0.0.1:8080|User-Agent: ApacheBench/2.3|Accept: */*"
	if got := strings.Join(p.Header, "|"); got != want {
		t.Errorf("got header %q, want %q", got, want)
	}
}

func TestFlagsSetThePlan(t *testing.T) {
	dir := t.TempDir()
	body := filepath.Join(dir, "body")
	testkit.Must(t, os.WriteFile(body, []byte("a=b\n"), 0o644))
	for _, c := range []struct {
		name, line string
		ok         func(p *load.Plan) bool
	}{
		{"one request", "localhost/", func(p *load.Plan) bool {
			return p.URL == "http://localhost:80/" && p.Connections == 1 && p.Requests == 1
		}},
		{"a time", "-n 7 -t 3 http://h/", func(p *load.Plan) bool {
			return p.Duration == 3*time.Second && p.Requests == 50000
		}},
		{"a time and then a number", "-t 3 -n 70000 http://h/", func(p *load.Plan) bool {
			return p.Duration == 3*time.Second && p.Requests == 70000 && p.Samples == 70000
		}},
		{"POST", "-T text/csv -p " + body + " http://h/", func(p *load.Plan) bool {
			return p.Method == "POST" && p.Body == "a=b\n" &&
				strings.HasPrefix(strings.Join(p.Header, "|"), "Content-length: 4|Content-type: text/csv|Host: h|")
		}},
		{"PUT with another method", "-u " + body + " -m PATCH http://h/", func(p *load.Plan) bool {
			return p.Method == "PATCH" && p.Body == "a=b\n" &&
				strings.HasPrefix(strings.Join(p.Header, "|"), "Content-length: 4|Content-type: text/plain|Host: h|")
		}},
		{"HEAD", "-i http://h/", func(p *load.Plan) bool { return p.Method == "HEAD" }},
		{"header", "-k -H X-A:b -A u:p -C a=1 -H Accept:text/html -H Host:other http://h/", func(p *load.Plan) bool {
			return strings.Join(p.Header, "|") == "Connection: Keep-Alive|Cookie: a=1|Authorization: Basic dTpw|X-A:b|Accept:text/html|Host:other|User-Agent: ApacheBench/2.3"
		}},
		{"IPv6", "http://[::1]:81/", func(p *load.Plan) bool {
			return p.URL == "http://[::1]:81/" && strings.HasPrefix(p.Header[0], "Host: [::1]:81")
		}},
		{"source and timeout", "-B 127.0.0.2 -s 3 http://h/", func(p *load.Plan) bool {
			return len(p.Sources) == 1 && p.Sources[0].String() == "127.0.0.2" && p.Timeout == 3*time.Second
		}},
		{"TLS", "-f tls1.2 -H Host:name https://127.0.0.1/", func(p *load.Plan) bool {
			return p.URL == "https://127.0.0.1:443/" && p.TLS.InsecureSkipVerify && p.TLS.ServerName == "name" &&
				p.TLS.MinVersion == p.TLS.MaxVersion && p.TLS.MinVersion == 0x0303
		}},
	} {
		if p := plan(t, strings.Fields(c.line)...); !c.ok(&p) {
			t.Errorf("%s: %s: got %+v", c.name, c.line, p)
		}
	}
}

func TestInvalidCommandLinesAreRejected(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "want one URL after all flags, got 0"},
		{"http://h/ -n 5", "want one URL after all flags, got 3"},
		{"http://h", "want a path after the host, at least /"},
		{"http:///x", "want a host"},
		{"http://h:0/x", `port "0": want a number from 1 to 65535`},
		{"-c 2 http://h/", "concurrency 2 exceeds the number of requests, 1"},
		{"-n 0 http://h/", `flag -n: "0": want an integer from 1 to 100000000`},
		{"-c 20001 -n 30000 http://h/", "from 1 to 20000"},
		{"-n 1 -X proxy:80 http://h/", "flag -X is not supported; ab's unsupported flags are -b, -X, -I, -Z"},
		{"-y", "flag -y: missing value"},
		{"-Q http://h/", `unknown flag "-Q"; ab's unsupported flags are`},
		{"-v 2 http://h/", `flag -v: "2": want an integer from 0 to 1`},
		{"-i -p /dev/null http://h/", "flag -p: cannot mix POST with other methods"},
		{"-p /nonexistent http://h/", "flag -p: open /nonexistent:"},
		{"-f SSL3 http://h/", `"SSL3": want TLS1,`},
	} {
		if _, err := ab.Parse(strings.Fields(c.line)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.line, err, c.want)
		}
	}
}
