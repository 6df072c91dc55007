//go:build linux

package corpus_test

import (
	"fmt"
	"io/fs"
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
//	@ours NAME: VALUE  tare's value of what differs: it must not change unnoticed
//	@differs NAME: WHY what may differ: status, body, a field, upstream, or "upstream NAME" for
//	                   one field or parameter there
//
// and, after an empty line, the body. A field Content-Length may announce a longer one.
type request struct {
	title, method, scheme, host, target, proto string
	fields                                     []string
	from, body, then, before                   string
	chunked, framing, names, pauses            bool
	waits                                      int // seconds
	kept                                       int
	changes                                    []string
	differs, ours                              map[string]string
}

func readSite(t *testing.T, file string) *site {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	testkit.Must(t, err)
	s := &site{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), archive: archive,
		differs: make(map[string]string)}
	for line := range strings.Lines(string(archive.Comment)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "differs "); ok {
			addDifference(t, s.differs, rest)
		}
	}
	for _, block := range regexp.MustCompile(`(?m)^# `).Split(s.file("requests"), -1)[1:] {
		r, err := readRequest(block)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s.requests = append(s.requests, r)
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
		ours: make(map[string]string)}
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
	r.host, r.target = rest, "/"
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		r.host, r.target = rest[:i], rest[i:]
	}
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
	case "@chunked":
		r.chunked = true
	case "@pauses":
		r.pauses = true
	case "@names":
		r.names = true
	case "@framing":
		r.framing = true
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
	case "@ours":
		name, value, ok := strings.Cut(rest, ": ")
		if !ok {
			return fmt.Errorf("%q is not @ours NAME: VALUE", line)
		}
		r.ours[name] = value
	case "@differs":
		name, why, ok := strings.Cut(rest, ": ")
		if !ok {
			return fmt.Errorf("%q is not @differs NAME: WHY", line)
		}
		r.differs[name] = why
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
		name = filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	err := filepath.WalkDir(filepath.Join(dir, "srv"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, fileTime(), fileTime())
	})
	testkit.Must(t, err)
}
