package wrk

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/testkit"
)

func TestFlagsAreParsed(t *testing.T) {
	plain := Command{url: "http://h:1/", connections: 10, threads: 2, duration: 10 * time.Second,
		timeout: 2 * time.Second}
	for line, change := range map[string]func(c *Command){
		"http://h:1/": func(*Command) {},
		"-t100 -c5000 -d30s http://h:1/": func(c *Command) {
			c.threads, c.connections, c.duration = 100, 5000, 30*time.Second
		},
		"http://h:1/ --threads 1 --connect=1k": func(c *Command) { c.threads, c.connections = 1, 1000 },
		"-d 2m -T 1h http://h:1/":              func(c *Command) { c.duration, c.timeout = 2*time.Minute, time.Hour },
		"--timeout 0 -Lv -d1 http://h:1/": func(c *Command) {
			c.timeout, c.latency, c.version, c.duration = 0, true, true, time.Second
		},
		"-t32 -c32 -r10k http://h:1/": func(c *Command) {
			c.threads, c.connections, c.requests, c.duration = 32, 32, 10_000, 0
		},
		"--requests=2M http://h:1/": func(c *Command) { c.requests, c.duration = 2_000_000, 0 },
		"-H A:1 -H B:2 --header A:3 http://h:1": func(c *Command) {
			c.header, c.url = []string{"B:2", "A:3"}, "http://h:1"
		},
	} {
		want := plain
		change(&want)
		got, err := Parse(strings.Fields(line))
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		want.hasDuration = got.hasDuration
		want.isV1 = want.requests > 0
		if !slices.Equal(got.header, want.header) {
			t.Errorf("%q: header %q, want %q", line, got.header, want.header)
		}
		got.header, want.header = nil, nil
		if g, w := *got, want; g.url != w.url || g.connections != w.connections || g.threads != w.threads ||
			g.duration != w.duration ||
			g.requests != w.requests || g.timeout != w.timeout || g.latency != w.latency || g.version != w.version ||
			g.isV1 != w.isV1 {
			t.Errorf("%q: got %+v, want %+v", line, g, w)
		}
	}
}

func TestInvalidCommandLinesAreRejected(t *testing.T) {
	for line, want := range map[string]string{
		"":                               "missing URL",
		"-x http://h/":                   `unknown flag "-x"; wrk's unsupported flags are -s, -R, -U, -B`,
		"-s post.lua http://h/":          "flag -s is not supported",
		"--script=x http://h/":           "flag --script is not supported",
		"-R2000 http://h/":               "flag -R is not supported",
		"--u_latency http://h/":          "flag --u_latency is not supported",
		"-c1 http://h/":                  "number of connections must be >= threads",
		"-c0 http://h/":                  "number of connections must be >= threads",
		"-t0 http://h/":                  "above 0",
		"-d0 http://h/":                  "above 0",
		"-r0 http://h/":                  "above 0",
		"-r1 http://h/":                  "at least as many requests as threads",
		"-r1k -d1s http://h/":            "mutually exclusive",
		"-d5x http://h/":                 `unknown unit "x"`,
		"-d9999h http://h/":              "at most one year",
		"-c http://h/":                   `"http://h/": want an integer`,
		"-t6k -c10k http://h/":           "at most 5000 threads",
		"-H foo http://h/":               `want "Name: value"`,
		"foo":                            "invalid URL: foo",
		"ftp://h/":                       "invalid URL: ftp://h/",
		"127.0.0.1:80/":                  "invalid URL: 127.0.0.1:80/",
		"http://h/ http://i/":            "want one URL",
		"-c10 http://h/ -- -d arg --any": "want one URL",
	} {
		_, err := Parse(strings.Fields(line))
		e, ok := errors.AsType[*dialect.UsageError](err)
		if !ok || !strings.Contains(e.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
			continue
		}
		var out, stderr strings.Builder
		if code := e.End(&out, &stderr); code != 1 || out.Len() > 0 ||
			!strings.HasPrefix(stderr.String(), e.Error()+"\n") {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", line, code, out.String(), stderr.String())
		}
	}
}

func TestHelpAndVersionEndTheCommand(t *testing.T) {
	for line, want := range map[string]string{
		"-h":                   usageText,
		"--help http://h/":     usageText,
		"-v":                   versionText + usageText,
		"--version -c 10 -d 1": versionText + usageText,
	} {
		_, err := Parse(strings.Fields(line))
		e, ok := errors.AsType[*dialect.UsageError](err)
		if !ok {
			t.Errorf("%q: got %v", line, err)
			continue
		}
		var out, stderr strings.Builder
		if code := e.End(&out, &stderr); code != 1 || out.String() != want || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", line, code, out.String(), stderr.String())
		}
	}
}

func TestFlagsSetThePlan(t *testing.T) {
	c, err := Parse(strings.Fields("-t32 -c100 -r10k -H A:1 https://h:1/"))
	testkit.Must(t, err)
	p := c.Plan()
	if p.Connections != 96 || p.Threads != 32 || p.Requests != 9984 || p.Duration != 0 || p.URL != "https://h:1/" ||
		len(p.Header) != 1 || !p.TLS.InsecureSkipVerify {
		t.Errorf("got %+v", p)
	}
	if p.Timeout < time.Minute {
		t.Errorf("requests are given up after %v: wrk waits for them", p.Timeout)
	}
}
