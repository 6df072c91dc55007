package front_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/testkit/programs"
)

const sameHead = `server_names_hash_bucket_size 128;
	types { text/html html; text/css css; image/x-icon ico; application/json json; }
	default_type application/octet-stream;
	server { listen LISTEN default_server; server_name default; return 404 "default\n"; }
`

func TestSameAsNginx(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/same.txtar")
	must(t, err)
	dir := t.TempDir()
	writeSite(t, dir)
	conf := func(listen string) string {
		var b strings.Builder
		b.WriteString(sameHead)
		for i, c := range archive.Files {
			name := fmt.Sprintf("case%d", i)
			text, _, _ := strings.Cut(string(c.Data), "\nREQUESTS\n")
			s := strings.ReplaceAll(text, "server {", "server { listen LISTEN; root ROOT;")
			if !strings.Contains(s, " server_name ") || strings.Contains(s, "$server_name") {
				s = strings.ReplaceAll(s, "server {", "server { server_name CASE;")
			}
			b.WriteString(strings.ReplaceAll(s, "CASE", name) + "\n")
		}
		return strings.NewReplacer("LISTEN", listen, "ROOT", dir+"/site", "DIR", dir).Replace(b.String())
	}

	theirs := programs.FreeAddress(t)
	startNginx(t, "tcp", theirs, dir, conf(theirs))
	server := httptest.NewUnstartedServer(nil)
	ours := server.Listener.Addr().String()
	path := filepath.Join(dir, "tare.conf")
	must(t, os.WriteFile(path, []byte("events {} http { access_log off;\n"+conf(ours)+"}"), 0o644))
	read, err := nginxconf.Parse(path, nginxconf.Options{Prefix: dir})
	must(t, err)
	h := newFront(t, read.Config)
	server.Config.Handler = h
	server.Config.DisableGeneralOptionsHandler = true
	server.Start()
	defer server.Close()

	for i, c := range archive.Files {
		t.Run(c.Name, func(t *testing.T) {
			_, requests, _ := strings.Cut(string(c.Data), "\nREQUESTS\n")
			for a := range strings.SplitSeq(strings.TrimSpace(requests), "\n") {
				want := sameResponse(t, theirs, fmt.Sprintf("case%d", i), a)
				if got := sameResponse(t, ours, fmt.Sprintf("case%d", i), a); got != want {
					t.Errorf("%s\n nginx: %s\n  tare: %s", a, want, got)
				}
			}
		})
	}
}

func writeSite(t testing.TB, dir string) {
	t.Helper()
	for _, name := range []string{
		"index.html", "a/index.html", "a/x.txt", "a/b/deep.txt", "b/x.html", "e.html", "50x.html", "fav.ico",
		"x.json", "x y.txt", "ä.txt",
		"p/index.php", "d/main.css", "UPPER.HTML", ".hidden", "d/a%20b.txt", "d/q?m.txt", "d/semi;colon.txt", "noext",
	} {
		path := filepath.Join(dir, "site", name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte("file "+name+"\n"), 0o644))
	}
	must(t, os.Mkdir(filepath.Join(dir, "site", "empty"), 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "site", "sp ace"), 0o755))
}

var serverName = regexp.MustCompile(`<center>(nginx|tare)(/[^<]*)?</center>`)

// sameResponse returns the compared part of a response.
func sameResponse(t *testing.T, addr, host, request string) string {
	t.Helper()
	line, fields, _ := strings.Cut(request, " |")
	method, target, ok := strings.Cut(line, " ")
	if !ok {
		method, target = "GET", line
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, target)
	if !strings.Contains(fields, "Host: ") {
		fmt.Fprintf(&b, "Host: %s\r\n", host)
	}
	for f := range strings.SplitSeq(fields, " |") {
		if f != "" {
			fmt.Fprintf(&b, "%s\r\n", strings.ReplaceAll(f, "CASE", host))
		}
	}
	b.WriteString("Connection: close\r\n\r\n")
	c, err := net.Dial("tcp", addr)
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = c.Write(b.Bytes())
	must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return "no response"
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "cut off: " + err.Error()
	}
	_, port, _ := net.SplitHostPort(addr)
	output := serverName.ReplaceAll(body, []byte("<center>SERVER</center>"))
	if resp.StatusCode == http.StatusBadRequest {
		return "400" // net/http has its own pages for malformed requests
	}
	show := func(s string) string { return strings.ReplaceAll(s, port, "PORT") }
	return fmt.Sprintf("%d type %q location %q body %q", resp.StatusCode, resp.Header.Get("Content-Type"),
		show(resp.Header.Get("Location")), show(string(output)))
}
