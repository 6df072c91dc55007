package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// -T prints the same as nginx -T, also for files that are included several times or end without a
// line end.
func TestDumpIsThatOfNginx(t *testing.T) {
	t.Parallel()
	nginx := programs.Nginx(t)
	dir := openDir(t)
	for _, name := range []string{"servers", "logs", "nested"} {
		testkit.Must(t, os.Mkdir(filepath.Join(dir, name), 0o777))
	}
	for name, text := range map[string]string{
		"nginx.conf": `pid logs/pid; error_log logs/error.log;
events { worker_connections 100; }
http {
	access_log logs/access.log;
	client_body_temp_path logs/a; proxy_temp_path logs/b; fastcgi_temp_path logs/c; uwsgi_temp_path logs/d;
	scgi_temp_path logs/e;
	include types.conf;
	include servers/*.conf;
	include none*.conf;
	include "with space.conf";
	map $host $a { include map.conf; }
	geo $b { include geo.conf; }
	include ./nested/../nested/one.conf;
}
`,
		"with space.conf": "# CRLF\r\n\r\n",
		"map.conf":        "a 1;\n",
		"geo.conf":        "127.0.0.0/8 1;\n",
		"nested/one.conf": "include nested/two.conf; include types.conf;",
		"nested/two.conf": "server { listen unix:" + dir + "/c; location / { if ($a) { include servers/../return.conf; } } }",
		"return.conf":     "return 204; # ${not} \"a variable\"\n\n\n",
		"types.conf":      "types { text/html html; } # no line end",
		"empty.conf":      "",
		"servers/b.conf":  "server { listen unix:" + dir + "/b;\n\tinclude empty.conf;\n}\n\n",
		"servers/a.conf":  "server { listen unix:" + dir + "/a; include empty.conf; return 200 \"ü\"; }\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	conf := filepath.Join(dir, "nginx.conf")
	theirs := testkit.Command(t, nginx.Bin, "-T", "-p", dir, "-c", conf, "-e", filepath.Join(dir, "logs/error.log"))
	theirs.Env = append(os.Environ(), nginx.Env...)
	want := testkit.Value(theirs.Output())(t)
	got := testkit.Value(testkit.Command(t, "tare", "serve", "-c", conf, "-T").Output())(t)
	testkit.Equal(t, string(got), string(want))
}

// checkReport is what -t --json prints.
type checkReport struct {
	File                             string
	Valid                            bool
	Errors, Ignored, Warnings, Notes []struct {
		File, Directive, Text string
		Line, Column          int
		Unsupported           bool
	}
}

// checkJSON runs -t --json, which must print one JSON object and nothing else.
func checkJSON(t *testing.T, conf string, args ...string) (report checkReport) {
	t.Helper()
	c := testkit.Command(t, "tare", append([]string{"serve", "-c", conf, "-t", "--json"}, args...)...)
	var messages strings.Builder
	c.Stderr = &messages
	out, err := c.Output()
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil || decoder.More() {
		t.Fatalf("%v: %s", err, out)
	}
	if wantCode := map[bool]int{false: 2}[report.Valid]; c.ProcessState.ExitCode() != wantCode || messages.Len() > 0 {
		t.Errorf("%v: want exit code %d; messages %q", err, wantCode, messages.String())
	}
	return report
}

// Each kind of error is reported as JSON with the file and line that it is about. Errors that
// concern a directive have its column, too.
func TestErrorsHaveTheirPlacesInJSON(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	conf := filepath.Join(dir, "nginx.conf")
	inServer := func(text string) string { // on line 4
		return "events {}\nhttp {\nserver { listen unix:/x;\n" + text + "\n}\n}\n"
	}
	for _, c := range []struct {
		conf         string
		line, column int
		text         string
	}{
		{"events {}\n  rubbish;", 2, 3, "unknown directive"},
		{"events {", 1, 0, "unexpected end of file"},
		{"events {}\n\x00\xff\"</script>\u2028;\n", 2, 1, ""},
		{"events {} \"a\nb\" c;", 1, 11, ""},
		{inServer("\tssi on;"), 4, 2, "not supported"},
		{inServer("include none.conf;"), 4, 1, "no such file"},
		{inServer("include nginx.conf;"), 1, 1, "not allowed in server"},
		{inServer("include [;"), 4, 1, ""},
		{inServer("listen unix:/x;"), 4, 1, "duplicate"},
		{inServer("location /a { } location /a { }"), 4, 17, "duplicate location"},
		{inServer("location ~ ( { }"), 4, 1, "missing"},
		{inServer("location / {\nset $a b;\nrewrite ( /x; }"), 6, 1, "missing"},
		{inServer("location / {\nif ($a ~ [) { }\n}"), 5, 1, ""},
		{inServer("location / {\n\n  return 200 $nosuch; }"), 6, 3, "nosuch"},
		{inServer("location / {\nif ($host) {\nset $a b; set $a $nosuch; } }"), 6, 11, "nosuch"},
		{inServer("listen unix:/y ssl; ssl_certificate none.pem; ssl_certificate_key none.pem;"), 3, 1, "no such file"},
		{inServer("access_log none/x;"), 3, 1, "no such file"},
		{"user nosuchuser;\nevents {}\n" + "http { server { listen unix:/x; } }", 0, 0, "nosuchuser"},
	} {
		write(t, conf, c.conf)
		report := checkJSON(t, conf)
		if len(report.Errors) == 0 || report.Valid || report.File != conf {
			t.Errorf("%q: %+v", c.conf, report)
			continue
		}
		e := report.Errors[0]
		if e.Line != c.line || c.column != 0 && e.Column != c.column || !strings.Contains(e.Text, c.text) ||
			(e.File == conf) != (c.line > 0) || strings.HasPrefix(e.Text, conf+":") {
			t.Errorf("%q: got %+v, want line %d, column %d, %q", c.conf, e, c.line, c.column, c.text)
		}
	}
	report := checkJSON(t, dir)
	if len(report.Errors) != 1 || !strings.Contains(report.Errors[0].Text, "is a directory") {
		t.Errorf("a folder: %+v", report)
	}
}

// Notes, warnings and ignored directives have their places, too, also in included files.
func TestRemarksHaveTheirPlacesInJSON(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	conf, included := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "more.conf")
	write(t, conf, "events {}\nhttp {\n  include more.conf;\n}\n")
	write(t, included, "server { listen unix:/x;\n   ssi on;\n\tproxy_temp_path /tmp;\n}\n"+
		"server { listen unix:/x; server_name a;\n}\nserver { listen unix:/x;\nserver_name a; }\n")
	report := checkJSON(t, conf, "--lenient")
	if !report.Valid || len(report.Ignored) != 1 || len(report.Notes) == 0 || len(report.Warnings) == 0 {
		t.Fatalf("%+v", report)
	}
	if m := report.Ignored[0]; m.File != included || m.Line != 2 || m.Column != 4 || m.Directive != "ssi" ||
		!m.Unsupported {
		t.Errorf("ignored: %+v", m)
	}
	if m := report.Notes[1]; m.File != included || m.Line != 3 || m.Column != 2 || m.Directive != "proxy_temp_path" {
		t.Errorf("notes: %+v", report.Notes)
	}
	if m := report.Warnings[0]; m.File != included || m.Line != 7 || m.Column != 10 {
		t.Errorf("warning: %+v", m)
	}
}
