package front_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// An HTTP/2 response may pause for longer than send_timeout while nothing waits to be sent.
func TestPausedResponseDoesNotTimeOut(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	noLeaks(t)
	const timeout = 500 * time.Millisecond
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		timer := time.NewTimer(2 * timeout) // the pause is the subject of the test
		<-timer.C
		_, _ = io.WriteString(w, "second")
	})
	c := oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to)},
		Settings: &conf.Settings{SendTimeout: timeout}})
	s := httptest.NewUnstartedServer(newFront(t, c))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	resp, err := s.Client().Get(s.URL)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || string(b) != "first second" || resp.ProtoMajor != 2 {
		t.Errorf("%s: %q, %v", resp.Proto, b, err)
	}
}

// A client of HTTP/1.0 that keeps its connection receives a response with a length, also if the
// upstream pauses and states none. Otherwise it would need a connection for each request.
func TestPausedResponseKeepsConnectionOfHTTP10(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		timer := time.NewTimer(50 * time.Millisecond) // the pause is the subject of the test
		<-timer.C
		_, _ = io.WriteString(w, "second")
	})
	c := oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to)}})
	s := httptest.NewServer(newFront(t, c))
	defer s.Close()
	nc, err := net.Dial("tcp", s.Listener.Addr().String())
	must(t, err)
	defer nc.Close()
	fmt.Fprint(nc, "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	must(t, err)
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	if string(b) != "first second" || resp.ContentLength != 12 || resp.Header.Get("Connection") != "keep-alive" {
		t.Errorf("body %q, length %d, header %v", b, resp.ContentLength, resp.Header)
	}
}
