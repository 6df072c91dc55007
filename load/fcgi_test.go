package load_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// listen returns a socket and the URL of its root without the final slash.
func listen(t testing.TB, scheme, network string) (l net.Listener, url string) {
	t.Helper()
	at := "127.0.0.1:0"
	switch network {
	case "unix":
		at = filepath.Join(t.TempDir(), "s")
	case "tcp6":
		at = "[::1]:0"
	}
	l, err := net.Listen(network, at)
	if err != nil && network == "tcp6" {
		t.Skip(err) // the machine has no IPv6
	}
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	if network == "unix" {
		return l, scheme + "+unix://" + at + ":"
	}
	return l, scheme + "://" + l.Addr().String()
}

// fcgiScript starts a FastCGI application that handles each connection by a function.
func fcgiScript(t *testing.T, serve func(n int, c net.Conn, requests *bufio.Reader)) string {
	_, address, _ := strings.Cut(script(t, serve), "://")
	return "fcgi://" + address + "/"
}

// readRequest reads a request up to the end of its body.
func readRequest(r *bufio.Reader) error {
	_, _, _, err := testkit.ReadFastCGI(r)
	return err
}

// responding responds to each request, and closes the connection after a number of them; never if it
// is 0.
func responding(limit int, response string) func(int, net.Conn, *bufio.Reader) {
	return func(_ int, c net.Conn, requests *bufio.Reader) {
		for n := 1; readRequest(requests) == nil; n++ {
			if io.WriteString(c, response); n == limit {
				return
			}
		}
	}
}

const plain = "Content-Type: text/plain\r\n\r\n"

// STDERR output and a nonzero exit code are no errors, but the report shows both.
func TestStderrAndExitCodeAreNoErrors(t *testing.T) {
	t.Parallel()
	response := load.Stderr("PHP Warning: ") + load.Stdout(plain) + load.Stderr("oh\n") +
		load.Stdout("hello") + load.End(3, 0)
	r := run(t, load.Plan{URL: fcgiScript(t, responding(0, response)), Requests: 20, Connections: 2})
	f := r.FastCGI
	if r.Requests == 0 || r.Errors.Total() != 0 || f.Stderr != "PHP Warning: oh\n" || f.Exits != r.Requests {
		t.Errorf("%d requests, errors %+v, %+v", r.Requests, r.Errors, f)
	}
	// Each connection may have been in the middle of a response at either end.
	if each := uint64(len("PHP Warning: oh\n")); f.StderrBytes > (r.Requests+2)*each ||
		f.StderrBytes+2*each < r.Requests*each {
		t.Errorf("%d bytes for %d requests", f.StderrBytes, r.Requests)
	}
	// STDERR is also kept for failed and timed-out responses.
	for _, rest := range []string{load.End(0, 0), ""} {
		url := fcgiScript(t, responding(0, load.Stderr("panic: oh")+rest))
		r := run(t, load.Plan{URL: url, Connections: 1, Requests: 1, Timeout: timeoutFor("timeout: receiving")})
		if r.Requests != 0 || !strings.HasPrefix(r.FastCGI.Stderr, "panic: oh") {
			t.Errorf("%d requests, %+v", r.Requests, r.FastCGI)
		}
	}
}

// FastCGI cannot announce a close. An application that closes between two responses has made no
// error; an HTTP server would have announced it.
func TestUnannouncedCloseIsRetried(t *testing.T) {
	response := load.Stdout(plain+"hello") + load.End(0, 0)
	for limit := range 6 { // 0 is no limit
		r := runCleanly(t, load.Plan{URL: fcgiScript(t, responding(limit, response)), Connections: 3, Requests: 60})
		testkit.Equal(t, r.Connects == 3, limit == 0, "connections are kept for", limit, "responses")
	}
}

// Memory is allocated per connection and per second, not per request.
func TestFastCGIRequestsAllocateNothing(t *testing.T) {
	testkit.NoRace(t, "it multiplies the CPU time of the load")
	response := []byte(load.Stdout(plain+"hello") + load.Stderr("oh") + load.Stdout("") + load.End(0, 0))
	url := fcgiScript(t, func(_ int, c net.Conn, _ *bufio.Reader) {
		in := make([]byte, 4096) // a request comes in one piece
		for {
			n, err := c.Read(in)
			if err != nil {
				return
			}
			if !bytes.HasSuffix(in[:n], []byte("\x01\x05\x00\x01\x00\x00\x00\x00")) {
				t.Errorf("%d bytes came, without the end of STDIN", n)
			}
			c.Write(response)
		}
	})
	allocatesNothing(t, "FastCGI", load.Plan{URL: url})
}
