package contender_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// The names of derived contenders select the application, the protocol, the network and the front.
func TestContendersAreDerived(t *testing.T) {
	dir := filepath.Join(programs.Root(t), "contenders")
	for name, want := range map[string]contender.Spec{
		"nethttp": {Title: "net/http", About: "Go's own server, without a front", Run: "{bin} -listen 127.0.0.1:{port}",
			Protocol: "http", Needs: []string{"go"}},
		"lines-nethttp": {Title: "net/http", About: "Go's own server; a regular expression, a loop, and Fprintf",
			Run: "{bin} -application lines -listen 127.0.0.1:{port}", Protocol: "http", Needs: []string{"go"}},
		"nethttp-fcgi-unix": {Title: "FastCGI (unix)", About: "Go's own FastCGI responder on a unix socket, without a front",
			Run: "{bin} -fcgi -socket {socket}", Protocol: "fastcgi", Needs: []string{"go"}},
		"nginx-tare-unix": {Title: "nginx → tare (unix)",
			About: "nginx as a proxy in front of this project's server on a unix socket",
			Run:   "{bin} -socket {socket}", Protocol: "http", Needs: []string{"go", "nginx"}, Front: "nginx"},
		"tare-front-println-nethttp-fcgi-tcp": {Title: "tare front → FastCGI (TCP)",
			About: "this project's front in front of Go's own FastCGI responder on a TCP port",
			Run:   "{bin} -application println -fcgi -listen 127.0.0.1:{port}", Protocol: "fastcgi",
			Needs: []string{"go", "tare"}, Front: "tare-front", FrontRun: "{tare} serve -c {conf}"},
		"greeting-tare-tls": {Title: "tare", About: "this project's server over TLS", Protocol: "http", TLS: true,
			Run:   "{bin} -application greeting -listen 127.0.0.1:{port} -cert {cert} -key {key}",
			Needs: []string{"go"}},
		"caddy-nethttp-fcgi-unix-tls": {Title: "Caddy → FastCGI (unix)", TLS: true, Protocol: "fastcgi",
			About: "Caddy in front of Go's own FastCGI responder on a unix socket",
			Run:   "{bin} -fcgi -socket {socket}", Needs: []string{"go", "caddy"}, Front: "caddy",
			FrontRun: "{caddy} run --adapter caddyfile --config {conf}"},
	} {
		s, err := contender.Find(dir, name)
		if err != nil {
			t.Error(err)
			continue
		}
		got := contender.Spec{Title: s.Title, About: s.About, Run: s.Run, Protocol: s.Protocol, Needs: s.Needs,
			Front: s.Front, FrontRun: s.FrontRun, TLS: s.TLS}
		if s.Name != name || got.Title != want.Title || got.About != want.About || got.Run != want.Run ||
			got.Protocol != want.Protocol || !slices.Equal(got.Needs, want.Needs) || got.Front != want.Front ||
			got.FrontRun != want.FrontRun || got.TLS != want.TLS {
			t.Errorf("%s (%s):\n%+v, want\n%+v", name, s.Name, got, want)
		}
	}
}

func TestUnderivableNamesAreRejected(t *testing.T) {
	dir := filepath.Join(programs.Root(t), "contenders")
	for name, want := range map[string]string{
		"nonsense":                "nonsense/contender.yaml: no such contender: neither a folder nor derived",
		"nginx-nonsense":          "neither a folder nor derived from a server",
		"nonsense-nethttp":        `nethttp cannot serve the application "nonsense"`,
		"nginx-fasthttp":          `nothing can be derived from "fasthttp"`,
		"haproxy-nethttp-fcgi":    "HAProxy lacks fastcgi and tls",
		"haproxy-tare-tls":        "HAProxy lacks fastcgi and tls",
		"nethttp-nethttp-fcgi":    `cannot serve the application "nethttp"`,
		"lines-nginx-nethttp-tls": "neither a folder nor derived from a server",
	} {
		testkit.Fails(contender.Find(dir, name))(t, want, name)
	}
}

// Without Go, tare itself is the program of a contender that says how.
func TestProgramWithoutGoIsBuiltin(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	tools := &contender.Tools{Cache: t.TempDir(), Program: "/bin/true", Logf: t.Logf}
	s := testkit.Value(contender.Find(filepath.Join(programs.Root(t), "contenders"), "nethttp-unix"))(t)
	c, err := tools.Prepare(t.Context(), s)
	if err != nil || c.Bin != "/bin/true" || !slices.Contains(c.Versions, "built into tare") {
		t.Errorf("%+v, %v", c, err)
	}
	if s.Builtin = ""; err != nil {
		t.Fatal(err)
	}
	if _, err := tools.Prepare(t.Context(), s); err == nil ||
		err.Error() != `go is missing: it is not in PATH ("apt-get install golang-go" installs it)` {
		t.Error(err)
	}
}
