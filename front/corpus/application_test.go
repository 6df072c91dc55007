//go:build linux

package corpus_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// application is a server behind the front, at a port or a socket. It records what it receives. Its
// response is the site's file upstream/PORT/PATH: an HTTP response, or for FastCGI that of a CGI
// program. "hang" sends no response, and "close" closes the connection. Without a file the response
// is the request line. A response with pauses has no Content-Length; see writePaused.
type application struct {
	name       string
	site       *site
	listener   net.Listener
	substitute func(string) string
	running    sync.WaitGroup

	mu       sync.Mutex
	received []string
	conns    map[net.Conn]bool
}

// startApplication runs an application until the test ends. Without a listener its name is the path
// of a socket.
func startApplication(t *testing.T, s *site, name string, l net.Listener, substitute func(string) string) *application {
	t.Helper()
	a := &application{name: name, site: s, listener: l, substitute: substitute, conns: make(map[net.Conn]bool)}
	if l == nil {
		return a // open listens once the folder exists
	}
	a.start(t)
	return a
}

// open listens at the application's socket, if that is below dir.
func (a *application) open(t *testing.T, dir string) {
	t.Helper()
	if _, ok := a.listener.(*net.TCPListener); ok {
		return
	}
	l, err := net.Listen("unix", filepath.Join(dir, a.name))
	if err == nil {
		err = os.Chmod(filepath.Join(dir, a.name), 0o777) // the front may run as any user
	}
	testkit.Must(t, err)
	a.listener = l
	a.start(t)
}

func (a *application) start(t *testing.T) {
	listener := a.listener
	a.running.Go(func() { a.accept(listener) })
	t.Cleanup(func() {
		listener.Close()
		a.mu.Lock()
		for c := range a.conns {
			c.Close()
		}
		a.mu.Unlock()
		a.running.Wait()
	})
}

func (a *application) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		a.mu.Lock()
		a.conns[c] = true
		a.mu.Unlock()
		a.running.Go(func() {
			defer func() {
				c.Close()
				a.mu.Lock()
				delete(a.conns, c)
				a.mu.Unlock()
			}()
			if a.isFastCGI() {
				a.serveFastCGI(c)
			} else {
				a.serveHTTP(c)
			}
		})
	}
}

func (a *application) isFastCGI() bool {
	return strings.HasPrefix(a.name, fastCGIPorts) || strings.Contains(a.name, "php")
}

// takeReceived returns what was received since the last call.
func (a *application) takeReceived() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	received := a.received
	a.received = nil
	return received
}

func (a *application) keep(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.received = append(a.received, text)
}

// responseFile returns the file for a path, or "".
func (a *application) responseFile(path string) string {
	return a.substitute(a.site.file("upstream/" + strings.TrimPrefix(a.name, "/run/") + path))
}

// serveHTTP serves a connection.
func (a *application) serveHTTP(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if r.Header.Get("Expect") != "" {
			fmt.Fprint(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			a.keep(fmt.Sprintf("%s %s: a body that ends early", r.Method, r.RequestURI))
			return
		}
		lines := []string{"host: " + r.Host}
		for name, values := range r.Header {
			for _, v := range values {
				lines = append(lines, strings.ToLower(name)+": "+v)
			}
		}
		if len(r.TransferEncoding) > 0 || r.ContentLength > 0 {
			lines = append(lines, "body: "+summary(body))
		}
		a.keep(record(r.Method+" "+r.RequestURI, lines))
		if r.Header.Get("Upgrade") == "websocket" {
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(c, in)
			return
		}
		if !a.respond(c, r, in) || r.Close {
			return
		}
	}
}

// respond responds to a request, and reports whether another one may follow.
func (a *application) respond(c net.Conn, r *http.Request, in *bufio.Reader) bool {
	file := a.responseFile(strings.Split(r.RequestURI, "?")[0])
	switch strings.TrimSpace(file) {
	case "hang":
		_, _ = in.ReadByte() // until it is closed
		return false
	case "close":
		return false
	case "":
		file = fmt.Sprintf("HTTP/1.1 200 OK\nContent-Type: text/plain\n\n%s: %s %s\n", a.name, r.Method, r.RequestURI)
	}
	if strings.Contains(file, "(pause)\n") || strings.HasSuffix(file, "(cut)\n") {
		return writePaused(c, file)
	}
	head, body, _ := strings.Cut(file, "\n\n")
	if status := strings.Fields(head)[1]; status != "304" && status != "204" &&
		!strings.Contains(head, "Content-Length") {
		head += fmt.Sprintf("\nContent-Length: %d", len(body))
	}
	if r.Close && !strings.Contains(head, "\nConnection:") {
		// otherwise nginx reuses a connection that is about to be closed, and sends a POST there
		head += "\nConnection: close"
	}
	if r.Method == http.MethodHead {
		body = ""
	}
	_, err := fmt.Fprintf(c, "%s\r\n\r\n%s", strings.ReplaceAll(head, "\n", "\r\n"), body)
	return err == nil
}

// pauseTime is how long a pause in a request or response takes.
const pauseTime = 700 * time.Millisecond

// writePaused sends a response in pieces, with pauses at lines "(pause)". The pieces are chunks if
// the head says so; otherwise the body ends with the connection. A head without an empty line does
// not end. "(1M)" is a megabyte, "(hang)" waits until the connection is closed, and "(cut)" at
// the end closes it. It reports whether another request may follow.
func writePaused(c net.Conn, file string) bool {
	isChunked := strings.Contains(file, "\nTransfer-Encoding: chunked\n")
	isHead := true
	for i, piece := range strings.Split(file, "(pause)\n") {
		if i > 0 {
			time.Sleep(pauseTime)
		}
		if piece == "(hang)\n" {
			_, _ = io.Copy(io.Discard, c)
			return false
		}
		piece, isCut := strings.CutSuffix(piece, "(cut)\n")
		head, body := "", piece
		if isHead && piece != "" {
			var ends bool
			head, body, ends = strings.Cut(piece, "\n\n")
			head = strings.ReplaceAll(head, "\n", "\r\n")
			if isHead = !ends; ends {
				head += "\r\n\r\n"
			}
		}
		if body = strings.ReplaceAll(body, "(1M)", strings.Repeat("0123456789abcdef", 1<<16)); isChunked && body != "" {
			body = fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
		}
		if _, err := io.WriteString(c, head+body); err != nil || isCut {
			return false
		}
	}
	if isChunked {
		_, err := io.WriteString(c, "0\r\n\r\n")
		return err == nil
	}
	return false
}

// record formats what was received, independently of the order of fields.
func record(first string, lines []string) string {
	slices.Sort(lines)
	return first + "\n  " + strings.Join(lines, "\n  ")
}

// The types of FastCGI records.
const (
	beginRequest = 1
	endRequest   = 3
	params       = 4
	stdin        = 5
	stdout       = 6
)

// serveFastCGI serves a connection.
func (a *application) serveFastCGI(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		vars, body, keep, err := readFastCGI(in)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				a.keep("FastCGI: " + err.Error())
			}
			return
		}
		var lines []string
		for name, value := range vars {
			lines = append(lines, name+"="+value)
		}
		if len(body) > 0 {
			lines = append(lines, "stdin: "+summary(body))
		}
		a.keep(record("FastCGI", lines))
		file := a.responseFile(vars["SCRIPT_NAME"])
		switch strings.TrimSpace(file) {
		case "hang":
			_, _ = in.ReadByte()
			return
		case "close":
			return
		case "":
			file = fmt.Sprintf("Content-Type: text/plain\n\n%s: %s %s?%s\n", a.name, vars["REQUEST_METHOD"],
				vars["SCRIPT_NAME"], vars["QUERY_STRING"])
		}
		head, text, _ := strings.Cut(file, "\n\n")
		if err := writeFastCGI(c, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+text); err != nil || !keep {
			return
		}
	}
}

// readFastCGI reads a request.
func readFastCGI(in io.Reader) (vars map[string]string, body []byte, keep bool, err error) {
	var pairs []byte
	for ended := false; !ended; {
		var head [8]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, nil, false, err
		}
		content := make([]byte, int(binary.BigEndian.Uint16(head[4:]))+int(head[6]))
		if _, err := io.ReadFull(in, content); err != nil {
			return nil, nil, false, fmt.Errorf("truncated record: %w", err)
		}
		content = content[:len(content)-int(head[6])]
		switch head[1] {
		case beginRequest:
			keep = content[2]&1 != 0
		case params:
			pairs = append(pairs, content...)
		case stdin:
			body = append(body, content...)
			ended = len(content) == 0
		default:
			return nil, nil, false, fmt.Errorf("unexpected record type %d", head[1])
		}
	}
	vars = make(map[string]string)
	for len(pairs) > 0 {
		n := pairLength(&pairs)
		m := pairLength(&pairs)
		if n+m > len(pairs) {
			return nil, nil, false, errors.New("parameters that end early")
		}
		vars[string(pairs[:n])] = string(pairs[n : n+m])
		pairs = pairs[n+m:]
	}
	return vars, body, keep, nil
}

// pairLength reads the length of a name or value.
func pairLength(b *[]byte) int {
	if n := (*b)[0]; n < 128 {
		*b = (*b)[1:]
		return int(n)
	}
	n := binary.BigEndian.Uint32(*b) & (1<<31 - 1)
	*b = (*b)[4:]
	return int(n)
}

// writeFastCGI writes a response.
func writeFastCGI(w io.Writer, text string) error {
	var b bytes.Buffer
	for rest := []byte(text); len(rest) > 0; {
		n := min(len(rest), 32<<10)
		b.Write([]byte{1, stdout, 0, 1, byte(n >> 8), byte(n), 0, 0})
		b.Write(rest[:n])
		rest = rest[n:]
	}
	b.Write([]byte{1, stdout, 0, 1, 0, 0, 0, 0})
	b.Write([]byte{1, endRequest, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	_, err := w.Write(b.Bytes())
	return err
}
