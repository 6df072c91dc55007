package nginxconf

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// aCase is a piece of configuration in testdata/agreement.txt.
type aCase struct {
	level   string // the block around it: main, http, server, location, upstream
	verdict string // "+", "-", "<" or ">"
	text    string
}

// agreementCases reads testdata/agreement.txt.
func agreementCases(t *testing.T) (all []aCase) {
	t.Helper()
	b := testkit.Value(os.ReadFile("testdata/agreement.txt"))(t)
	level := ""
	for line := range strings.Lines(strings.ReplaceAll(string(b), "@long", strings.Repeat("x", 4000))) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			level = strings.Trim(line, "[]")
		default:
			text, _, isOnPurpose := strings.Cut(line[2:], " // ")
			testkit.Equal(t, isOnPurpose, line[0] == '<' || line[0] == '>', line, "has a reason")
			if quoted, err := strconv.Unquote(text); err == nil {
				text = quoted
			}
			all = append(all, aCase{level, line[:1], text})
		}
	}
	return all
}

// wrapped returns a whole configuration with the case. nginx must not use the machine's own
// folders.
func (c aCase) wrapped(dir string) string {
	text := c.text
	switch c.level {
	case "upstream":
		text = "upstream u {" + text + "\n}"
	case "server":
		text = "server { listen unix:" + dir + "/s;" + text + "\n}"
	case "location":
		text = "server { listen unix:" + dir + "/s; location /x/ {" + text + "\n} }"
	}
	if c.level != "main" {
		text = "events {}\nhttp { @http " + text + "\n}"
	}
	preamble := "access_log off; default_type text/plain;"
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		preamble += " " + name + "_temp_path " + dir + "/" + name + ";"
	}
	return strings.NewReplacer("@http", preamble, "@cert", "ssl_certificate "+dir+"/c.pem; ssl_certificate_key "+dir+
		"/c.key;", "@dir", dir).Replace(text)
}

// tried returns nginx's messages about a configuration, and an error if nginx rejects it.
func tried(t *testing.T, tool *contender.Program, dir, conf string) (output string, err error) {
	cmd := testkit.Command(t, tool.Bin, "-t", "-p", dir, "-c", conf, "-e", filepath.Join(dir, "error.log"), "-g",
		"pid "+dir+"/pid;")
	cmd.Env = slices.Concat(os.Environ(), tool.Env)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	return stderr.String(), err
}

// check returns an error if a configuration is rejected by the parser, or by the handler.
func check(file, dir string) error {
	r, err := Parse(file, Options{Prefix: dir})
	if err != nil {
		return err
	}
	if len(r.Config.Hosts) == 0 {
		r.Config.Hosts = []conf.Host{{}}
	}
	h, err := front.New(r.Config, front.CachesInMemory())
	if err != nil {
		return err
	}
	return h.Close()
}

func TestParseAcceptsWhatNginxAccepts(t *testing.T) {
	testkit.NoRace(t, "it parses hundreds of configurations in one goroutine")
	tool := programs.Nginx(t)
	dir := t.TempDir()
	writeAll(t, dir)
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"a"}})
	for name, b := range map[string][]byte{"c.pem": cert, "c.key": key} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	for _, c := range agreementCases(t) {
		file := filepath.Join(dir, "nginx.conf")
		testkit.Must(t, os.WriteFile(file, []byte(c.wrapped(dir)), 0o600))
		output, theirs := tried(t, tool, dir, file)
		ours := check(file, dir)
		testkit.Equal(t, theirs == nil, strings.Contains("+<", c.verdict), "nginx accepts", c.level, c.text, output)
		testkit.Equal(t, ours == nil, strings.Contains("+>", c.verdict), "tare accepts", c.level, c.text, ours)
	}
}

// nginx's error for an unknown directive contains its name as the lexer read it.
func TestLexerReadsWordsAsNginx(t *testing.T) {
	tool := programs.Nginx(t)
	dir := t.TempDir()
	for _, written := range words() {
		conf := filepath.Join(dir, "nginx.conf")
		testkit.Must(t, os.WriteFile(conf, []byte(written+" ;"), 0o600))
		output, _ := tried(t, tool, dir, conf) // it always fails
		tree, errs, err := syntax.Parse("nginx.conf", &syntax.Source{FS: oneFile(written + " ;")}, nil)
		if err != nil || errs != nil || len(tree) != 1 || len(tree[0].Args) != 0 ||
			!strings.Contains(output, fmt.Sprintf("unknown directive \"%s\" in", tree[0].Name)) {
			t.Errorf("%s: read as %v, %v %v; nginx reports %s", written, tree, errs, err, output)
		}
	}
}

// writeAll writes the files that the cases include.
func writeAll(t *testing.T, dir string) {
	t.Helper()
	for name, text := range map[string]string{
		"some/a.conf": "gzip on;", "some/b.conf": "gzip_vary on;", "some/.c.conf": "nosuch;", "brace.conf": "}",
		"open.conf":    "types {",
		"unended.conf": "gzip on", "empty.conf": "", "types.conf": "text/html html;", "cased.conf": "a 1; b 2;",
		"loop.conf": "include loop.conf;",
	} {
		testkit.WriteFile(t, filepath.Join(dir, name), text)
	}
}

// Parse accepts the unmodified configuration of Debian's package.
func TestDebianConfigurationIsAccepted(t *testing.T) {
	fsys := fstest.MapFS{}
	etc := programs.NginxEtc(programs.Nginx(t))
	for _, pattern := range []string{"*", "snippets/*", "sites-available/*"} {
		names := testkit.Value(filepath.Glob(filepath.Join(etc, pattern)))(t)
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil { // folders are not files
				relative, _ := filepath.Rel(etc, name)
				fsys["etc/nginx/"+filepath.ToSlash(relative)] = &fstest.MapFile{Data: b}
			}
		}
	}
	// a link, as the package installs it
	fsys["etc/nginx/sites-enabled/default"] = fsys["etc/nginx/sites-available/default"]
	fsys["etc/nginx/conf.d/php.conf"] = &fstest.MapFile{Data: []byte(`server {
		listen 8443 ssl;
		include snippets/snakeoil.conf;
		location ~ \.php$ { include snippets/fastcgi-php.conf; fastcgi_pass unix:/run/php/php-fpm.sock; }
		location / { include proxy_params; proxy_pass http://127.0.0.1:8080; }
	}`)}
	r := testkit.Value(Parse("/etc/nginx/nginx.conf", Options{FS: fsys}))(t)
	if len(r.Config.Hosts) != 2 || len(r.Warnings) != 0 || r.Config.Types["html"] != "text/html" ||
		len(r.Config.Types) < 50 {
		t.Errorf("%d hosts, %d types, %v", len(r.Config.Hosts), len(r.Config.Types), r.Warnings)
	}
}

// nginx and Parse accept typical configurations of well-known applications.
func TestTypicalConfigurationsAreAccepted(t *testing.T) {
	tool := programs.Nginx(t)
	names, err := filepath.Glob(filepath.Join("testdata", "typical", "*.conf"))
	if err != nil || len(names) < 30 {
		t.Fatalf("%d configurations, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".conf"), func(t *testing.T) {
			dir := t.TempDir()
			b := testkit.Value(os.ReadFile(name))(t)
			text := strings.ReplaceAll(string(b), "@sock", "unix:"+dir+"/s")
			writeTypical(t, dir, programs.NginxEtc(tool))
			conf := filepath.Join(dir, "nginx.conf")
			testkit.Must(t, os.WriteFile(conf, []byte(aCase{level: "http", text: text}.wrapped(dir)), 0o600))
			output, err := tried(t, tool, dir, conf)
			testkit.Equal(t, err, nil, "nginx reports", output)
			r := testkit.Value(Parse(conf, Options{Prefix: dir}))(t)
			h := testkit.Value(front.New(r.Config))(t)
			testkit.Check(t, h.Close())
		})
	}
}

// writeTypical writes the files that the configurations refer to.
func writeTypical(t *testing.T, dir, etc string) {
	t.Helper()
	params := testkit.Value(os.ReadFile(filepath.Join(etc, "fastcgi_params")))(t)
	cert, key := tlstest.SelfSign(t, x509.Certificate{})
	for name, b := range map[string][]byte{"fastcgi_params": params, "htpasswd": []byte("a:{PLAIN}b\n"),
		"cert.pem": cert, "key.pem": key} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
}
