package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// A handler that appends to one field's values changes no other field.
func TestAppendToFieldValuesChangesNoOtherField(t *testing.T) {
	var got string
	settings := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Header["Accept"] = append(r.Header["Accept"], "more")
		r.Header["X-One"] = append(r.Header["X-One"], "more")
		got = fmt.Sprint(r.Header)
	})}
	inBubble(t, settings, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nAccept: a\r\nX-One: b\r\nX-Two: c\r\n\r\n")
		synctest.Wait()
		if want := "map[Accept:[a more] X-One:[b more] X-Two:[c]]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// With full duplex the handler can read the body after the response has begun. Otherwise the
// remainder was drained before the response.
func TestFullDuplexKeepsBodyReadable(t *testing.T) {
	for _, duplex := range []bool{false, true} {
		t.Run(fmt.Sprint(duplex), func(t *testing.T) {
			settings := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				if duplex {
					if err := control.EnableFullDuplex(); err != nil {
						t.Error(err)
					}
				}
				line := make([]byte, 3)
				for range 2 {
					_, err := io.ReadFull(r.Body, line)
					fmt.Fprintf(w, "%s %v.", line, err)
					control.Flush()
				}
			})}
			inBubble(t, settings, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
				io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none")
				synctest.Wait()
				first, _ := c.Received()
				io.WriteString(c, "two")
				synctest.Wait()
				second, _ := c.Received()
				if got := strings.Contains(string(first), "one <nil>."); got != duplex {
					t.Errorf("response before the body was complete: %v\n%q", got, first)
				}
				if got := strings.Contains(string(second), "two <nil>."); got != duplex {
					t.Errorf("read after answering: %v\n%q", got, second)
				}
			})
		})
	}
}

func TestKeepAlivesDisabledClosesConnections(t *testing.T) {
	inBubble(t, &http.Server{Handler: http.HandlerFunc(dump)},
		func(t *testing.T, s *engine.Server, c *testkit.MemConn) {
			io.WriteString(c, get)
			synctest.Wait()
			if b, closed := c.Received(); closed {
				t.Fatalf("closed after %q", b)
			}
			s.SetKeepAlivesEnabled(false)
			synctest.Wait()
			if _, closed := c.Received(); !closed {
				t.Error("idle connection left open")
			}
		})
}

// Temporary files of a multipart form are removed once the handler has returned.
func TestMultipartFilesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	spooled := 0
	settings := handle(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		spooled = countFiles(t)
	})
	everyMode(t, settings, func(s *site) {
		var form bytes.Buffer
		m := multipart.NewWriter(&form)
		part, _ := m.CreateFormFile("f", "f")
		part.Write(make([]byte, 100<<10))
		m.Close()
		resp, err := s.client.Post("http://host/", m.FormDataContentType(), &form)
		if err != nil {
			s.Fatal(err)
		}
		resp.Body.Close()
		s.get("/") // the next request of the connection: the first one has ended
		if spooled == 0 {
			s.Error("nothing was spooled, so nothing was tested")
		}
		if n := countFiles(s.T); n != 0 {
			s.Errorf("%d files left", n)
		}
	})
}

func countFiles(t *testing.T) int {
	names, err := filepath.Glob(filepath.Join(os.TempDir(), "multipart-*"))
	if err != nil {
		t.Error(err)
	}
	return len(names)
}

// flaky is a listener whose Accept fails a few times, as in a process out of descriptors.
type flaky struct {
	net.Listener
	failures int
	fatal    bool
}

type failedAccept struct{ temporary bool }

func (failedAccept) Error() string     { return "no more descriptors" }
func (failedAccept) Timeout() bool     { return false }
func (e failedAccept) Temporary() bool { return e.temporary }

func (l *flaky) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, failedAccept{temporary: !l.fatal}
	}
	return l.Listener.Accept()
}

func TestTemporaryAcceptErrorIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nw testkit.Network
		var logged testkit.Log
		s := engine.New(&http.Server{Handler: http.HandlerFunc(dump), ErrorLog: log.New(&logged, "", 0)})
		start := time.Now()
		served := goServe(s, &flaky{Listener: nw.Listen(), failures: 3})
		c, err := nw.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if elapsed := time.Since(start); elapsed != (5+10+20)*time.Millisecond {
			t.Errorf("accepted after %v", elapsed)
		}
		if n := strings.Count(logged.String(), "Accept error: no more descriptors; retrying in"); n != 3 {
			t.Errorf("logged %d failures: %s", n, logged.String())
		}
		c.Close()
		s.Close()
		<-served

		s = engine.New(&http.Server{})
		if err := s.Serve(&flaky{Listener: nw.Listen(), failures: 1, fatal: true}); !errors.Is(err, failedAccept{}) {
			t.Errorf("a failure for good: %v", err)
		}
	})
}

// alternating is a listener whose Accept fails and succeeds in turns. It has a connection for each
// time.
type alternating struct {
	net.Listener
	network *testkit.Network
	calls   int
}

func (l *alternating) Accept() (net.Conn, error) {
	if l.calls++; l.calls%2 == 1 {
		return nil, failedAccept{temporary: true}
	}
	go func() {
		if c, err := l.network.Dial(); err == nil {
			c.Close()
		}
	}()
	return l.Listener.Accept()
}

// Errors of Accept that repeat are logged with longer and longer delays as by net/http, and apart
// from that every 10 seconds, also if Accept succeeds in between.
func TestRepeatedAcceptErrorsAreLoggedRarely(t *testing.T) {
	for _, inTurns := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var nw testkit.Network
			var logged testkit.Log
			s := engine.New(&http.Server{Handler: http.HandlerFunc(dump), ErrorLog: log.New(&logged, "", 0)})
			var l net.Listener = &flaky{Listener: nw.Listen(), failures: 1 << 30}
			if inTurns {
				l = &alternating{Listener: nw.Listen(), network: &nw}
			}
			served := goServe(s, l)
			time.Sleep(time.Minute)
			s.Close()
			<-served
			if n := strings.Count(logged.String(), "Accept error"); n < 6 || n > 9+6 {
				t.Errorf("in turns %v: %d lines in a minute", inTurns, n)
			}
		})
	}
}

func TestTLSConnectionsAreServed(t *testing.T) {
	listen := modes["tls"]
	var logged testkit.Log
	l, dial := listen(t)
	s := engine.New(&http.Server{Handler: http.HandlerFunc(dump), ErrorLog: log.New(&logged, "", 0)})
	served := goServe(s, l)
	defer func() { s.Close(); <-served }()

	plain, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	io.WriteString(plain, get)
	if b, _ := io.ReadAll(plain); !strings.Contains(string(b), "400 Bad Request") ||
		!strings.Contains(string(b), "HTTPS server") {
		t.Errorf("response to HTTP on an HTTPS port: %q", b)
	}
	if !strings.Contains(logged.String(), "client sent an HTTP request to an HTTPS server") {
		t.Errorf("logged %q", logged.String())
	}
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if b, _ := io.ReadAll(c); !strings.Contains(string(b), "tls true") {
		t.Errorf("Request.TLS is set: %q", b)
	}
}

// A hijacked connection has none of the server's deadlines.
func TestHijackClearsDeadlines(t *testing.T) {
	settings := &http.Server{ReadTimeout: time.Second, WriteTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				defer c.Close()
				line, err := rw.ReadString('\n')
				fmt.Fprintf(rw, "got %q %v", line, err)
				rw.Flush()
			}()
		})}
	inBubble(t, settings, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
		io.WriteString(c, get)
		pass(time.Hour)
		io.WriteString(c, "late\n")
		if line, err := bufio.NewReader(c).ReadString(0); line != `got "late\n" <nil>` || err != io.EOF {
			t.Errorf("%q %v", line, err)
		}
	})
}

// Calls after the handler has returned fail and have no effect.
func TestWritesAfterHandlerReturnedFail(t *testing.T) {
	var kept http.ResponseWriter
	settings := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if kept == nil {
			kept = w
		}
		io.WriteString(w, "mine")
	})}
	inBubble(t, settings, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
		io.WriteString(c, get)
		synctest.Wait()
		c.Received()
		if n, err := io.WriteString(kept, "late"); n != 0 || err == nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		if err := http.NewResponseController(kept).Flush(); err == nil {
			t.Error("flushed")
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("hijacked")
				}
			}()
			http.NewResponseController(kept).Hijack()
		}()
		io.WriteString(c, get)
		synctest.Wait()
		if b, _ := c.Received(); strings.Contains(string(b), "late") || !strings.HasSuffix(string(b), "mine") {
			t.Errorf("%q", b)
		}
	})
}

// A request of a server whose base context has ended is canceled from the start, as with net/http.
func TestCanceledBaseContextCancelsRequests(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var got error
	settings := &http.Server{
		BaseContext: func(net.Listener) context.Context { return ended },
		Handler:     http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Context().Err() }),
	}
	inBubble(t, settings, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
		io.WriteString(c, get)
		synctest.Wait()
		if !errors.Is(got, context.Canceled) {
			t.Error(got)
		}
	})
}

// Input may fill the buffer to the last byte while the departure watch runs.
func TestDepartureWatchWorksWithFullBuffer(t *testing.T) {
	const bufferSize = 4 << 10
	settings := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gone := r.Context().Done()
		select {
		case <-gone:
			t.Error("cancelled while the client waits")
		case <-time.After(time.Second):
		}
		io.WriteString(w, r.URL.Path)
	})}
	inBubble(t, settings, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
		start := "GET /1 HTTP/1.1\r\nHost: a\r\nX: "
		io.WriteString(c, start+strings.Repeat("x", bufferSize-len(start)-4)+"\r\n\r\n")
		synctest.Wait()
		io.WriteString(c, "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
		pass(3 * time.Second)
		if b, closed := c.Received(); closed || !strings.Contains(string(b), "/1") ||
			!strings.Contains(string(b), "/2") {
			t.Errorf("closed=%v %q", closed, b)
		}
	})
}

// Goroutines of a handler write and copy a file. The race detector must find nothing.
func TestConcurrentWritesDoNotRace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	settings := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var writer sync.WaitGroup
		writer.Go(func() { io.WriteString(w, "text") })
		time.Sleep(time.Second)
		io.Copy(w, f)
		writer.Wait()
	})}
	inBubble(t, settings, func(_ *testing.T, _ *engine.Server, c *testkit.MemConn) {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		time.Sleep(2 * time.Second)
	})
}

// A goroutine that reads the body sets deadlines while the handler writes, and while another one
// hijacks the connection. The race detector must find nothing.
func TestConcurrentDeadlinesDoNotRace(t *testing.T) {
	for _, takes := range []bool{false, true} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			settings := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				control := http.NewResponseController(w)
				var reader sync.WaitGroup
				reader.Go(func() {
					for range 100 {
						_ = control.SetReadDeadline(time.Time{})
					}
				})
				if takes {
					nc, _, err := control.Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					reader.Wait()
					nc.Close()
					return
				}
				w.WriteHeader(http.StatusOK)
				reader.Wait()
			})}
			inBubble(t, settings, func(_ *testing.T, _ *engine.Server, c *testkit.MemConn) {
				io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				synctest.Wait()
			})
		})
	}
}
