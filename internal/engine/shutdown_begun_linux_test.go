package engine_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Shutdown closes idle connections, but not one on which a part of a request has arrived, as in
// nginx and net/http, nor one that is new. The response announces the end.
func TestShutdownServesRequestThatHasBegun(t *testing.T) {
	someModes(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }), func(s *site) {
		begun, idle, fresh := s.connect(), s.connect(), s.connect()
		in := bufio.NewReader(begun)
		request := func(rest string, in *bufio.Reader, to io.Writer) *http.Response {
			s.Helper()
			io.WriteString(to, rest)
			resp, err := http.ReadResponse(in, nil)
			testkit.Must(s, err)
			io.Copy(io.Discard, resp.Body)
			return resp
		}
		inIdle := bufio.NewReader(idle)
		request("GET / HTTP/1.1\r\nHost: host\r\n\r\n", in, begun)
		request("GET / HTTP/1.1\r\nHost: host\r\n\r\n", inIdle, idle)
		io.WriteString(begun, "GET / HTT")
		testkit.WaitFor(s, "all connections", func() bool {
			_, open := s.server.Connections()
			return open == 3
		})
		done := make(chan error, 1)
		go func() { done <- s.server.Shutdown(s.Context()) }()
		if _, err := inIdle.ReadByte(); err != io.EOF {
			s.Errorf("idle connection: got %v, want EOF", err)
		}
		if resp := request("GET / HTTP/1.1\r\nHost: host\r\n\r\n", bufio.NewReader(fresh), fresh); !resp.Close {
			s.Error("the response on the new connection does not announce the end")
		}
		if resp := request("P/1.1\r\nHost: host\r\n\r\n", in, begun); !resp.Close {
			s.Error("the response does not announce the end")
		}
		if _, err := in.ReadByte(); err != io.EOF {
			s.Errorf("got %v, want EOF", err)
		}
		if err := <-done; err != nil {
			s.Error(err)
		}
	}, "tcp", "unix", "ServeTLS")
}
