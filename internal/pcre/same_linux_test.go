package pcre

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// compiles reports whether nginx accepts an expression.
func compiles(t *testing.T, bin string, env []string, dir, expression string) bool {
	t.Helper()
	conf := filepath.Join(dir, "one.conf")
	writeFile(t, conf, "pid "+dir+"/p1; error_log stderr; events {} http { map $uri $m { "+quoted("~"+expression)+
		" 1; } }")
	c := exec.Command(bin, "-t", "-p", dir, "-c", conf)
	c.Env = env
	out, err := c.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "pcre2_compile") && !strings.Contains(string(out), "regex") {
		t.Logf("%s: %s", expression, out)
	}
	return err == nil
}

// quoted returns a word of nginx.conf.
func quoted(s string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`) + `"`
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(name, []byte(text), 0o600))
}

// An expression that nginx accepts matches the same here, or is rejected. One that nginx rejects is
// rejected.
func TestMatchesAreThoseOfNginx(t *testing.T) {
	tool, dir := programs.Nginx(t), t.TempDir()
	rejected := map[string]bool{`\X`: true, `(?J)a`: true, `(?xx)[a b]`: true, `[\Qa-z\E]`: true, `(?-1)`: true,
		`[\N]`: true, `(*UTF).`: true}
	var good []string
	var regexps []*Regexp
	var maps, values strings.Builder
	for _, e := range expressions() {
		re, err := Compile(e, false)
		theirs := compiles(t, tool.Bin, tool.Env, dir, e)
		if theirs != (err == nil) && !rejected[e] {
			t.Errorf("%s: nginx: %v, here: %v", e, theirs, err)
		}
		if !theirs || err != nil {
			continue
		}
		n := len(good)
		fmt.Fprintf(&maps, "map $uri $m%d { default no; %s \"y[$1][$2][$3]\"; }\n", n, quoted("~"+e))
		fmt.Fprintf(&values, "location /%d/ { rewrite ^/%d(/.*)$ $1; }\n", n, n)
		good, regexps = append(good, e), append(regexps, re)
	}
	var body strings.Builder
	for i := range good {
		fmt.Fprintf(&body, "add_header M%d $m%d;\n", i, i)
	}
	socket := filepath.Join(dir, "s")
	conf := filepath.Join(dir, "conf")
	writeFile(t, conf, "daemon off; master_process off; pid "+dir+"/pid; error_log "+dir+
		"/error.log; events {} http { access_log off; map_hash_bucket_size 512; variables_hash_max_size 8192; variables_hash_bucket_size 512; merge_slashes off; "+
		"client_body_temp_path "+dir+"/b; proxy_temp_path "+dir+"/p; fastcgi_temp_path "+dir+"/f; uwsgi_temp_path "+
		dir+"/u; scgi_temp_path "+dir+"/c;"+
		maps.String()+"server { listen unix:"+socket+"; location / { "+body.String()+" return 200 x; } } }")
	programs.Start(t, "unix", socket, tool.Env, tool.Bin, "-p", dir, "-c", conf, "-e", filepath.Join(dir, "error.log"))
	for _, s := range subjects() {
		header := request(t, socket, s)
		for i, re := range regexps {
			bounds, err := re.Find(s, new(Budget))
			want := header.Get(fmt.Sprintf("M%d", i))
			if want == "" || err != nil {
				if want != "" || re.utf8 {
					continue
				}
				t.Errorf("%s, %q: nginx has %q, here %v", good[i], s, want, err)
				continue
			}
			if got := shown(s, bounds); got != want && !strings.Contains(want, "\n") && !strings.Contains(got, "\n") {
				t.Errorf("%s, %q: %q, nginx has %q", good[i], s, got, want)
			}
		}
	}
}

// request requests a path, and returns the response's header.
func request(t *testing.T, socket, path string) http.Header {
	t.Helper()
	c, err := net.Dial("unix", socket)
	testkit.Must(t, err)
	defer func() { _ = c.Close() }()
	escaped := ""
	for i := range len(path) {
		if c := path[i]; isWord(c) || c == '/' || c == '.' {
			escaped += string(c)
		} else {
			escaped += fmt.Sprintf("%%%02X", c)
		}
	}
	fmt.Fprintf(c, "GET %s HTTP/1.0\r\n\r\n", escaped)
	b, err := io.ReadAll(bufio.NewReader(c))
	testkit.Must(t, err)
	header := make(http.Header)
	head, _, _ := strings.Cut(string(b), "\r\n\r\n")
	for line := range strings.SplitSeq(head, "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			header.Add(name, value)
		}
	}
	return header
}
