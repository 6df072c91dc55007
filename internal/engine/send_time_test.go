package engine_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

const expectsContinue = "POST / HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"

// unread are requests whose responses a client does not read, repeated.
var unread = map[string]struct {
	text    string
	handler http.HandlerFunc
}{
	"small":    {get, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 3<<10)) }},
	"no body":  {get, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
	"large":    {get, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 32<<20)) }},
	"pieces":   {get, func(w http.ResponseWriter, _ *http.Request) { writeForever(w) }},
	"interim":  {get, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) }},
	"continue": {expectsContinue + "x", func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }},
	"refused": {strings.Repeat(get, 1000) + "malformed\r\n\r\n",
		func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "small") }},
}

func writeForever(w http.ResponseWriter) {
	for err := error(nil); err == nil; {
		_, err = w.Write([]byte("a piece of the body"))
	}
}

// A client that sends requests and reads nothing is disconnected, however short the responses are.
// The limit is set by a handler, by the server, or by WriteTimeout.
func TestSendTimeoutEndsUnreadConnection(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	const timeout = 50 * time.Millisecond
	bounds := map[string]func(*engine.Server, *http.Server){
		"by handler": func(_ *engine.Server, set *http.Server) {
			next := set.Handler
			set.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := w.(connection.SendTimer).SetSendTimeout(timeout); err != nil {
					t.Error(err)
				}
				next.ServeHTTP(w, r)
			})
		},
		"by deadline": func(_ *engine.Server, set *http.Server) {
			next := set.Handler
			set.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout)); err != nil {
					t.Error(err)
				}
				next.ServeHTTP(w, r)
			})
		},
		"by server":    func(s *engine.Server, _ *http.Server) { s.SendTimeout = timeout },
		"WriteTimeout": func(_ *engine.Server, set *http.Server) { set.WriteTimeout = timeout },
	}
	for name, u := range unread {
		for bound, apply := range bounds {
			t.Run(name+" "+bound, func(t *testing.T) {
				t.Parallel()
				set := &http.Server{Handler: u.handler}
				kinds := []string{"unix", "memory"}
				if name == "large" || name == "small" {
					// TCP may stop by itself if a client has no room for many
					// short responses.
					kinds = append(kinds, "tcp", "net.Conn", "tls", "ServeTLS")
				}
				someServers(t, set, apply, func(s *site) { s.sendUnread(u.text) }, kinds...)
			})
		}
	}
}

// sendUnread sends a text until the connection is closed.
func (s *site) sendUnread(text string) {
	s.Helper()
	c := s.connect()
	for {
		if _, err := io.WriteString(c, text); err != nil {
			if os.IsTimeout(err) {
				s.Error("the connection was not closed")
			}
			return
		}
	}
}

// The timeout also applies to data that the kernel copies.
func TestSendTimeoutAppliesToFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(name, make([]byte, 32<<20), 0o600))
	set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, name)
	})}
	someServers(t, set, func(s *engine.Server, _ *http.Server) { s.SendTimeout = 50 * time.Millisecond },
		func(s *site) { s.sendUnread(get) }, "tcp", "net.Conn", "tls", "ServeTLS")
}

// A client that reads a little from time to time receives everything. One that stops is
// disconnected a timeout later.
func TestSendTimeoutRestartsWithProgress(t *testing.T) {
	const timeout, each = 10 * time.Second, 20 << 10
	for _, reads := range []int{40, 3} {
		synctest.Test(t, func(t *testing.T) {
			failed := make(chan error, 1)
			s := engine.New(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, err := w.Write(bytes.Repeat([]byte("x"), 30*each))
				failed <- err
			})})
			s.SendTimeout = timeout
			nw := new(testkit.Network)
			served := goServe(s, nw.Listen())
			c, err := nw.Dial()
			testkit.Must(t, err)
			io.WriteString(c, "GET / HTTP/1.1\r\n"+host+"Connection: close\r\n\r\n")
			got := 0
			for range reads {
				time.Sleep(timeout - time.Second)
				n, _ := io.ReadAtLeast(c, make([]byte, each), each)
				if got += n; n < each {
					break
				}
			}
			began := time.Now()
			err = <-failed
			if reads == 40 && (err != nil || got < 30*each) {
				t.Errorf("%d bytes, %v", got, err)
			}
			if elapsed := time.Since(began); reads == 3 &&
				(!errors.Is(err, os.ErrDeadlineExceeded) || elapsed > timeout) {
				t.Errorf("%v after %v", err, elapsed)
			}
			c.Close()
			s.Close()
			<-served
		})
	}
}

// A send timeout does not change the handler's own deadline, which may be earlier.
func TestSendTimeoutKeepsHandlerDeadline(t *testing.T) {
	for _, late := range []bool{false, true} {
		set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			end := func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(50 * time.Millisecond)) }
			if late { // the handler ends a waiting write
				time.AfterFunc(50*time.Millisecond, end)
			} else {
				end()
			}
			writeForever(w)
		})}
		someServers(t, set, func(s *engine.Server, _ *http.Server) { s.SendTimeout = time.Hour },
			func(s *site) { s.sendUnread(get) }, "tcp", "net.Conn", "tls", "ServeTLS")
	}
}
