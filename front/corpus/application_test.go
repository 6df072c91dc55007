//go:build linux

package corpus_test

import (
	"bufio"
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
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// application is a server behind the front, at a port or a socket. It records what it receives. Its
// response is the site's file upstream/PORT/PATH: an HTTP response, or for FastCGI that of a CGI
// program. "hang" sends no response, and "close" closes the connection. A response after "(early)" is
// sent before the request's body is received. Without a file the response is the request line. A
// response with pauses has no Content-Length; see writePaused.
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
		body, err := []byte(nil), error(nil)
		isEarly := strings.HasPrefix(a.responseFile(r.URL.Path), "(early)\n")
		if !isEarly {
			body, err = io.ReadAll(r.Body)
		}
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
		if !isEarly && (len(r.TransferEncoding) > 0 || r.ContentLength > 0) {
			lines = append(lines, "body: "+summary(body))
		}
		a.keep(record(r.Method+" "+r.RequestURI, lines))
		if r.Header.Get("Upgrade") == "websocket" {
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(c, in)
			return
		}
		goesOn := a.respond(c, r, in)
		if isEarly {
			_, _ = io.Copy(io.Discard, in) // otherwise the connection is reset
		}
		if !goesOn || isEarly || r.Close {
			return
		}
	}
}

// respond responds to a request, and reports whether another one may follow.
func (a *application) respond(c net.Conn, r *http.Request, in *bufio.Reader) bool {
	file := strings.TrimPrefix(a.responseFile(strings.Split(r.RequestURI, "?")[0]), "(early)\n")
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
	if status := strings.Fields(head)[1]; status != "304" && status != "204" && status != "101" &&
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

func (a *application) serveFastCGI(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		vars, body, keep, err := testkit.ReadFastCGI(in)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				a.keep("FastCGI: " + err.Error())
			}
			return
		}
		delete(vars, "(twice)") // nginx repeats the parameters of repeated fields; applications see the last
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

func writeFastCGI(w io.Writer, text string) error {
	b := wire.AppendStreamEnd(wire.AppendStream(nil, wire.Stdout, 1, []byte(text)), wire.Stdout, 1)
	_, err := w.Write(wire.AppendEnd(b, 1, wire.End{}))
	return err
}
