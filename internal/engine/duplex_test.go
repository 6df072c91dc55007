package engine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// uploads are requests whose body comes later, and that body.
var uploads = map[string]struct{ head, body string }{
	"length":  {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\n", "hello"},
	"chunked": {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"},
	"part":    {"POST / HTTP/1.1\r\n" + host + "Content-Length: 6\r\n\r\nh", "ello!"},
	"expects": {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", "hello"},
}

// While a goroutine of a handler waits for the body, every other use of request and response works.
func TestWaitingForBodyBlocksNothingElse(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	steps := map[string]func(w http.ResponseWriter, r *http.Request){
		"write": func(w http.ResponseWriter, _ *http.Request) {},
		"done": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			default:
			}
		},
		"err": func(_ http.ResponseWriter, r *http.Request) { _ = r.Context().Err() },
		"derived": func(_ http.ResponseWriter, r *http.Request) {
			_, cancel := context.WithCancel(r.Context())
			cancel()
		},
		"afterfunc": func(_ http.ResponseWriter, r *http.Request) { context.AfterFunc(r.Context(), func() {}) },
		"deadlines": func(w http.ResponseWriter, _ *http.Request) {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(time.Hour))
			_ = control.SetWriteDeadline(time.Now().Add(time.Hour))
		},
		// which blocks in net/http
		"close":  func(_ http.ResponseWriter, r *http.Request) { go r.Body.Close() },
		"notify": func(w http.ResponseWriter, _ *http.Request) { w.(http.CloseNotifier).CloseNotify() },
		"hints": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
		},
		"long": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("long\n", 2000)) },
	}
	beside(t, handle(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		begun, read := make(chan bool), make(chan string, 1)
		go func() {
			close(begun)
			b, err := io.ReadAll(r.Body)
			read <- fmt.Sprintf("%s %v", b, err)
		}()
		<-begun
		time.Sleep(time.Millisecond) // so that it most likely waits
		step := r.Header.Get("Step")
		steps[step](w, r)
		io.WriteString(w, "greeting\n")
		w.(http.Flusher).Flush()
		if step == "close" {
			return
		}
		io.WriteString(w, <-read)
	}), func(s *site) {
		for step := range steps {
			for name, upload := range uploads {
				if name == "expects" && !s.ours() {
					continue // net/http's own expectContinueReader blocks Write, or races with it
				}
				c := s.connect()
				io.WriteString(c, strings.Replace(upload.head, host, host+"Step: "+step+"\r\n", 1))
				lines := bufio.NewReader(c)
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						s.Fatalf("%s %s: no greeting: %v", step, name, err)
					}
					if line == "greeting\n" {
						break
					}
				}
				if step == "close" {
					c.Close()
					continue
				}
				io.WriteString(c, upload.body+strings.ReplaceAll(get, host,
					host+"Step: write\r\nConnection: close\r\n"))
				b, err := io.ReadAll(lines)
				switch got := string(b); {
				case err == nil && strings.Contains(got, "hello") && strings.Count(got, "<nil>") == 2:
				case err == nil && name == "expects" && (strings.Contains(got, "hello <nil>") ||
					strings.Contains(got, http.ErrBodyReadAfterClose.Error())): // the response has begun before
				default:
					s.Errorf("%s %s: %q: %v", step, name, b, err)
				}
				c.Close()
			}
		}
	})
}

// Hijack ends a Read of the body that waits in another goroutine. Later input belongs to the
// handler.
func TestHijackEndsPendingRead(t *testing.T) {
	beside(t, handle(func(w http.ResponseWriter, r *http.Request) {
		read, begun := make(chan error, 1), make(chan bool)
		go func() {
			close(begun)
			_, err := io.ReadAll(r.Body)
			read <- err
		}()
		<-begun
		time.Sleep(time.Millisecond)
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if err := <-read; err == nil {
			t.Error("the body was read")
		}
		fmt.Fprint(rw, "taken\n")
		rw.Flush()
		line, err := rw.ReadString('\n')
		fmt.Fprintf(rw, "%q %v", line, err)
		rw.Flush()
	}), func(s *site) {
		for _, name := range []string{"length", "chunked"} {
			c := s.connect()
			io.WriteString(c, uploads[name].head)
			lines := bufio.NewReader(c)
			if line, err := lines.ReadString('\n'); line != "taken\n" {
				s.Fatalf("%s: %q %v", name, line, err)
			}
			io.WriteString(c, "mine\n")
			if b, err := io.ReadAll(lines); string(b) != `"mine\n" <nil>` {
				s.Errorf("%s: %q %v", name, b, err)
			}
		}
	})
}

// A deadline set by a handler ends a Read or a Write that already waits, or that starts
// concurrently.
func TestDeadlineEndsPendingReadAndWrite(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	beside(t, handle(func(w http.ResponseWriter, r *http.Request) {
		control, ended := http.NewResponseController(w), make(chan error, 1)
		if r.Method == http.MethodPost {
			go func() {
				_, err := io.ReadAll(r.Body)
				ended <- err
			}()
			if r.Header.Get("Step") != "at once" {
				time.Sleep(2 * time.Millisecond)
			}
			_ = control.SetReadDeadline(time.Unix(1, 0))
			if err := <-ended; !timedOut(err) {
				t.Errorf("read: %v", err)
			}
			return
		}
		go func() {
			var err error
			for err == nil {
				_, err = w.Write(make([]byte, 1<<20))
			}
			ended <- err
		}()
		time.Sleep(20 * time.Millisecond)
		_ = control.SetWriteDeadline(time.Unix(1, 0))
		if err := <-ended; !timedOut(err) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write: %v", err)
		}
	}), func(s *site) {
		for range 20 {
			c := s.connect()
			io.WriteString(c, strings.Replace(uploads["length"].head, host, host+"Step: at once\r\n", 1))
			if _, err := c.Read(make([]byte, 1)); err != nil {
				s.Fatal(err)
			}
			c.Close()
		}
		c := s.connect()
		io.WriteString(c, uploads["chunked"].head)
		c.Read(make([]byte, 1))
		c.Close()
		c = s.connect()
		io.WriteString(c, get)
		time.Sleep(40 * time.Millisecond)
		io.Copy(io.Discard, c)
	})
}

// noDeadlines is a connection whose SetDeadline, which Hijack calls, fails.
type noDeadlines struct{ net.Conn }

func (noDeadlines) SetDeadline(time.Time) error { return errors.New("no such deadline") }

// A failed Hijack does not change the response, the body or the context.
func TestFailedHijackChangesNothing(t *testing.T) {
	listener := new(testkit.Network)
	departed := make(chan bool)
	s := engine.New(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.Context().Err()
		_, _, err := http.NewResponseController(w).Hijack()
		b, readErr := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%v: %s %v", err, b, readErr)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		departed <- true
	})})
	served := goServe(s, noDeadlinesListener{listener.Listen()})
	defer func() { s.Close(); <-served }()
	for name, upload := range uploads {
		c, err := listener.Dial()
		testkit.Must(t, err)
		io.WriteString(c, upload.head+upload.body)
		want := "no such deadline: hello <nil>"
		if name == "part" {
			want = "no such deadline: hello! <nil>"
		}
		if got, err := bufio.NewReader(c).ReadString('>'); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q %v, want %q", name, got, err, want)
		}
		c.Close()
		<-departed
	}
}

type noDeadlinesListener struct{ net.Listener }

func (l noDeadlinesListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return noDeadlines{c}, err
}
