//go:build linux

package corpus_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tarehq/tare/internal/testkit"
)

// site is a file of testdata. Its parts are
//
//	nginx.conf         the configuration of both. Paths below /srv, /run, /var, /etc/nginx and
//	                   /etc/ssl are moved to the site's folder, and each port becomes a free one
//	requests           the requests, see request
//	upstream/PORT/…    the responses of the application at a port; see application
//	srv/…, etc/…       files
//
// Lines "differs NAME: WHY" of the comment list what may differ in all responses.
type site struct {
	name     string
	archive  *txtar.Archive
	requests []*request
	differs  map[string]string
}

// request is a request: a title after "# ", a line of method and URL, and of the version if it is
// not 1.1 (without a host, Host is not sent); header fields; and lines that begin with "@":
//
//	@from ADDRESS      the client's address, in 127.0.0.0/8
//	@body N            a body of N bytes
//	@chunked           sends the body in chunks
//	@pauses            pauses four times while it sends the request
//	@target TARGET     replaces the path of the URL
//	@before TEXT       is sent first, before TLS; a quoted Go string
//	@kept N            repeats the request N times on the same connection, unless it ends: the
//	                   statuses are compared, and whether it ends
//	@then TEXT         is sent after a 101, and its echo awaited
//	@wait              waits for a second before
//	@link PATH TARGET  replaces a file by a symbolic link before
//	@write PATH TEXT   writes a file before
//	@remove PATH       removes a file or a folder before
//	@names             compares the names in a listing, and not its looks
//	@framing           also compares how the end of the body is marked
//	@order             also compares the order and the spelling of fields
//	@ours NAME: VALUE  tare's value of what differs: it must not change unnoticed
//	@differs NAME: WHY what may differ: status, body, a field, upstream, or "upstream NAME" for
//	                   one field or parameter there
//
// and, after an empty line, the body. A field Content-Length may announce a longer one.
type request struct {
	title, method, scheme, host, target, proto string
	fields                                     []string
	from, body, then, before                   string
	is                                         map[string]bool // lines without a value, such as "@chunked"
	waits                                      int             // seconds
	kept                                       int
	changes                                    []string
	differs, ours                              map[string]string
}

func readSite(t *testing.T, file string) *site {
	t.Helper()
	archive := testkit.Value(txtar.ParseFile(file))(t)
	s := &site{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), archive: archive,
		differs: make(map[string]string)}
	for line := range strings.Lines(string(archive.Comment)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "differs "); ok {
			addDifference(t, s.differs, rest)
		}
	}
	for _, block := range regexp.MustCompile(`(?m)^# `).Split(s.file("requests"), -1)[1:] {
		s.requests = append(s.requests, testkit.Value(readRequest(block))(t))
	}
	if len(s.requests) == 0 || s.file("nginx.conf") == "" {
		t.Fatalf("%s: missing nginx.conf or requests", file)
	}
	return s
}

func addDifference(t *testing.T, to map[string]string, text string) {
	t.Helper()
	name, why, ok := strings.Cut(text, ": ")
	if !ok {
		t.Fatalf("%q is not NAME: WHY", text)
	}
	to[name] = why
}

// file returns a part of the archive, or "".
func (s *site) file(name string) string {
	for _, f := range s.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func readRequest(block string) (*request, error) {
	head, body, _ := strings.Cut(strings.TrimRight(block, "\n"), "\n\n")
	lines := strings.Split(head, "\n")
	if len(lines) < 2 {
		return nil, fmt.Errorf("%q: missing line of method and URL", block)
	}
	r := &request{title: lines[0], body: body, proto: "HTTP/1.1", differs: make(map[string]string),
		ours: make(map[string]string), is: make(map[string]bool)}
	first := strings.Fields(lines[1])
	if len(first) == 3 {
		r.proto = first[2]
	}
	var rest string
	var ok bool
	if r.method = first[0]; len(first) < 2 {
		return nil, fmt.Errorf("%q: missing URL", lines[1])
	}
	if r.scheme, rest, ok = strings.Cut(first[1], "://"); !ok {
		return nil, fmt.Errorf("invalid URL %q", first[1])
	}
	r.host, r.target, _ = strings.Cut(rest, "/")
	r.target = "/" + r.target
	for _, line := range lines[2:] {
		if err := r.readLine(line); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// readLine parses a field, or a line that begins with "@".
func (r *request) readLine(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "@from":
		r.from = rest
	case "@body":
		n, err := strconv.Atoi(rest)
		r.body = strings.Repeat("0123456789abcdef", n/16+1)[:n]
		return err
	case "@chunked", "@pauses", "@names", "@framing", "@order":
		r.is[word] = true
	case "@wait":
		r.waits++
	case "@link", "@write", "@remove":
		r.changes = append(r.changes, line)
	case "@target":
		r.target = rest
	case "@kept":
		n, err := strconv.Atoi(rest)
		r.kept = n
		return err
	case "@before":
		text, err := strconv.Unquote(rest)
		r.before = text
		return err
	case "@then":
		r.then = rest
	case "@ours", "@differs":
		name, value, ok := strings.Cut(rest, ": ")
		if !ok {
			return fmt.Errorf("%q is not %s NAME: TEXT", line, word)
		}
		map[string]map[string]string{"@ours": r.ours, "@differs": r.differs}[word][name] = value
	default:
		r.fields = append(r.fields, line)
	}
	return nil
}

// fileTime is the modification time of all files.
func fileTime() time.Time { return time.Date(2024, time.May, 1, 12, 0, 0, 0, time.UTC) }

// put writes the site's files below dir, and replaces existing ones.
func (s *site) put(t *testing.T, dir string, substitute func(string) string) {
	t.Helper()
	for _, sub := range []string{"srv", "run", "var", "etc", "tmp"} {
		testkit.Must(t, os.RemoveAll(filepath.Join(dir, sub)))
	}
	for _, sub := range []string{"srv", "run", "var/log/nginx", "var/cache", "etc/nginx", "etc/ssl", "tmp"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	for _, f := range s.archive.Files {
		name, text := f.Name, string(f.Data)
		if name == "nginx.conf" {
			name = "etc/nginx/nginx.conf"
		}
		if strings.HasPrefix(name, "etc/nginx/") {
			text = substitute(text)
		}
		if sub, _, _ := strings.Cut(name, "/"); sub != "srv" && sub != "etc" && sub != "var" {
			continue
		}
		testkit.WriteFile(t, filepath.Join(dir, name), text)
	}
	err := filepath.WalkDir(filepath.Join(dir, "srv"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, fileTime(), fileTime())
	})
	testkit.Must(t, err)
}

// change changes the site's files as a request requires.
func (r *request) change(t *testing.T, dir string) {
	t.Helper()
	for _, line := range r.changes {
		verb, rest, _ := strings.Cut(line, " ")
		name, arg, _ := strings.Cut(rest, " ")
		path := filepath.Join(dir, name)
		var err error
		switch verb {
		case "@link":
			if strings.HasPrefix(arg, "/") {
				arg = dir + arg
			}
			if err = os.Symlink(arg, path+".new"); err == nil {
				err = os.Rename(path+".new", path)
			}
		case "@write":
			if err = os.WriteFile(path, []byte(arg), 0o644); err == nil {
				err = os.Chtimes(path, fileTime(), fileTime())
			}
		case "@remove":
			err = os.RemoveAll(path)
		}
		testkit.Must(t, err)
	}
}

// ports maps the ports in a site's nginx.conf to real ones.
type ports struct {
	listeners map[string]*net.TCPListener // of the front, by port in nginx.conf
	apps      map[string]*application
	down      map[string]int // ports without a listener
	dir       string
}

const fastCGIPorts = "90" // the prefix of FastCGI ports

// assign finds the ports in a site's files, and opens them.
func (s *site) assign(t *testing.T, dir string) *ports {
	t.Helper()
	p := &ports{listeners: make(map[string]*net.TCPListener), apps: make(map[string]*application),
		down: make(map[string]int), dir: dir}
	for _, f := range s.archive.Files {
		if f.Name != "nginx.conf" && !strings.HasPrefix(f.Name, "etc/nginx/") {
			continue
		}
		text := string(f.Data)
		for _, m := range listenPort.FindAllStringSubmatch(text, -1) {
			if p.listeners[m[2]] == nil {
				p.listeners[m[2]] = listenLocal(t)
			}
		}
		for _, m := range upstreamPort.FindAllStringSubmatch(text, -1) {
			port := m[1]
			switch {
			case p.listeners[port] != nil || p.apps[port] != nil || p.down[port] != 0:
			case s.file("upstream/"+port+"/down") != "":
				p.down[port] = len(p.down) + 1 // privileged: nobody listens there
			default:
				p.apps[port] = startApplication(t, s, port, listenLocal(t), p.substitute)
			}
		}
		for _, m := range socketPath.FindAllStringSubmatch(text, -1) {
			if name := m[1]; p.apps[name] == nil {
				p.apps[name] = startApplication(t, s, name, nil, p.substitute)
			}
		}
	}
	return p
}

var (
	listenPort   = regexp.MustCompile(`\blisten(\s+)(?:127\.0\.0\.1:|\*:)?(\d+)`)
	upstreamPort = regexp.MustCompile(`\b127\.0\.0\.1:(\d+)`)
	socketPath   = regexp.MustCompile(`(?:_pass|server) (?:http://)?unix:(/run/[\w./-]+)`)
	// several workers would have separate turns and counts
	workers = regexp.MustCompile(`worker_processes \w+;`)
	rooted  = regexp.MustCompile(`(^|[\s"':=@])(/(?:srv|run|var|etc/nginx|etc/ssl)\b)`)
)

// substitute replaces ports and folders in a text by those of this run.
func (p *ports) substitute(text string) string {
	text = listenPort.ReplaceAllStringFunc(text, func(m string) string {
		g := listenPort.FindStringSubmatch(m)
		return "listen" + g[1] + "127.0.0.1:" + g[2]
	})
	text = upstreamPort.ReplaceAllStringFunc(text, func(m string) string {
		return "127.0.0.1:" + p.real(strings.TrimPrefix(m, "127.0.0.1:"))
	})
	text = workers.ReplaceAllString(text, "worker_processes 1;")
	for i, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		// not the machine's own folders
		if !strings.Contains(text, kind+"_temp_path") {
			text = strings.Replace(text, "\nhttp {\n",
				fmt.Sprintf("\nhttp {\n%s_temp_path /var/cache/%c;\n", kind, 'a'+i), 1)
		}
	}
	return rooted.ReplaceAllString(text, "${1}"+p.dir+"${2}")
}

// real returns the real port for one in nginx.conf.
func (p *ports) real(port string) string {
	switch {
	case p.listeners[port] != nil:
		return portOf(p.listeners[port])
	case p.down[port] != 0:
		return strconv.Itoa(p.down[port])
	case p.apps[port] != nil:
		return portOf(p.apps[port].listener)
	}
	return port
}

// restore is the inverse of substitute.
func (p *ports) restore(text string) string {
	var pairs []string
	for port, l := range p.listeners {
		pairs = append(pairs, portOf(l), port)
	}
	for port, app := range p.apps {
		if _, ok := app.listener.(*net.TCPListener); ok {
			pairs = append(pairs, portOf(app.listener), port)
		}
	}
	return strings.NewReplacer(append(pairs, p.dir, "")...).Replace(text)
}

func portOf(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }

func listenLocal(t *testing.T) *net.TCPListener {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}
