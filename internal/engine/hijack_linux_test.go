package engine_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// TestServerWithoutDescriptors is the process that TestHijackWithoutDescriptorsKeepsConnection
// starts. Its handlers use up all descriptors before they hijack.
func TestServerWithoutDescriptors(t *testing.T) {
	if os.Getenv("TARE_NO_DESCRIPTORS") == "" {
		t.Skip("is run by TestHijackWithoutDescriptorsKeepsConnection")
	}
	l := listenWithFewDescriptors(t)
	var s *engine.Server
	s = engine.New(&http.Server{ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/count" {
				_, open := s.Connections()
				fmt.Fprintf(w, "%d open.", open)
				return
			}
			switch r.URL.Path {
			case "/watched":
				_ = r.Context().Err()
			case "/read":
				begun := make(chan bool)
				go func() {
					close(begun)
					_, _ = r.Body.Read(make([]byte, 1))
				}()
				<-begun
			}
			var all []*os.File
			for {
				f, err := os.Open(os.DevNull)
				if err != nil {
					break
				}
				all = append(all, f)
			}
			c, _, err := http.NewResponseController(w).Hijack()
			for _, f := range all {
				f.Close()
			}
			if err != nil {
				http.Error(w, strings.ReplaceAll(err.Error(), ".", ""), http.StatusInternalServerError)
				if r.URL.Path == "/watched" {
					select {
					case <-r.Context().Done():
						io.WriteString(w, "gone.")
					default:
					}
				}
				io.WriteString(w, "failed.")
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: close\r\n\r\ntaken.")
		})})
	go s.Serve(l)
	io.Copy(io.Discard, os.Stdin) // until the other process ends
}

// If Hijack fails because there are no descriptors, the connection is unchanged: its response is
// sent, the next request is served, and its end is detected. Idle connections are closed for it.
func TestHijackWithoutDescriptorsKeepsConnection(t *testing.T) {
	address := playServer(t, "TestServerWithoutDescriptors", "TARE_NO_DESCRIPTORS=1")
	connect := func() net.Conn {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	count := func(c net.Conn) string {
		io.WriteString(c, strings.Replace(get, "/ ", "/count ", 1))
		return readResponses(t, c, 1)
	}
	body := "Content-Length: 5\r\n\r\nhello"
	for range 3 {
		for _, request := range []string{
			strings.Replace(get, "/ ", "/plain ", 1), strings.Replace(get, "/ ", "/watched ", 1),
			"POST /plain HTTP/1.1\r\n" + host + body, "POST /read HTTP/1.1\r\n" + host + body,
			"POST /plain HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		} {
			c := connect()
			io.WriteString(c, request)
			if got := readResponses(t, c, 1); !strings.Contains(got, " 500 ") ||
				!strings.Contains(got, "too many open files") || !strings.HasSuffix(got, "failed.") ||
				strings.Contains(got, "gone") {
				t.Fatalf("%.20q: %q", request, got)
			}
			eventually(t, "the next request is served, and the last connection has gone",
				func() bool { return strings.HasSuffix(count(c), "\n1 open.") })
			c.Close()
			eventually(t, "the end of the connection is noticed", func() bool {
				c := connect()
				defer c.Close()
				return strings.HasSuffix(count(c), "\n1 open.")
			})
		}
	}
	request := strings.Replace(strings.Replace(get, "/ ", "/plain ", 1), host, host+"Connection: close\r\n", 1)
	// they start to wait shortly after their responses
	eventually(t, "connections are given up for a Hijack", func() bool {
		for range 2 {
			idle := connect()
			defer idle.Close()
			count(idle)
		}
		c := connect()
		defer c.Close()
		io.WriteString(c, request)
		b, err := io.ReadAll(c)
		return strings.HasSuffix(string(b), "taken.") && err == nil
	})
}
