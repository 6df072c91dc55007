package cli_test

import (
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

const refusedConf = `pid DIR/pid;
events {}
http {
	log_format short '$server_name|$remote_addr|$request|$status|$body_bytes_sent|$host|$request_uri|$http_user_agent';
	access_log DIR/log short; send_timeout 100ms; client_header_timeout 1s;
	server { listen unix:DIR/s; server_name first; location / { return 200 text; } location = /none { return 404; } location = /to { return 302 /x; } }
	server { listen unix:DIR/s; server_name second; access_log DIR/second short; return 200 second; }
}
`

// exchangeBytes sends a text to a socket and reads until the connection closes.
func (f *frontSite) exchangeBytes(socket, send string, whole bool) {
	f.t.Helper()
	nc, err := net.Dial("unix", f.path(socket))
	if err != nil {
		f.t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(nc, send)
	if whole {
		_ = nc.(*net.UnixConn).CloseWrite()
	}
	if _, err := io.Copy(io.Discard, nc); os.IsTimeout(err) {
		f.t.Errorf("%q: the connection was not closed", send)
	}
}

// Requests that the server refuses appear in the log of the server block selected by address and
// Host, as in nginx.
func TestRefusedRequestsAreLogged(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	testkit.Must(t, os.Chmod(f.dir, 0o777))
	f.configure(refusedConf)
	f.start()
	for _, c := range []struct{ send, log, want string }{
		{"hello\r\n\r\n", "log", "first|unix:|hello|400|N|first|-|-"},
		{"\x16\x03\x01\r\n\r\n", "log", `first|unix:|\x16\x03\x01|400|N|first|-|-`},
		{"GET /a?b HTTP/1.1\r\nUser-Agent: ua\r\nHost: second\r\nHost: first\r\n\r\n", "second",
			"second|unix:|GET /a?b HTTP/1.1|400|N|second|/a?b|ua"},
		{"POST / HTTP/1.1\r\nHost: second\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "second",
			"second|unix:|POST / HTTP/1.1|400|N|second|/|-"},
		{"GET /%zz HTTP/1.1\r\nHost: second\r\n\r\n", "log", "first|unix:|GET /%zz HTTP/1.1|400|N|first|/%zz|-"},
		{"OPTIONS * HTTP/1.1\r\nHost: first\r\nConnection: close\r\n\r\n", "log",
			"first|unix:|OPTIONS * HTTP/1.1|400|N|first|*|-"},
		{"GET / HTTP/1.1\r\nHost: second\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "second",
			"second|unix:|GET / HTTP/1.1|431|N|second|/|-"},
		{"GET /x HT", "log", "first|unix:|GET /x HT|408|0|first|-|-"},
	} {
		before := read(t, f.path(c.log))
		f.exchangeBytes("s", c.send, false)
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(c.want), `\|N\|`,
			`\|[1-9][0-9]*\|`) + "\n$")
		deadline := time.Now().Add(30 * time.Second)
		for len(read(t, f.path(c.log))) == len(before) && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if got := strings.TrimPrefix(read(t, f.path(c.log)), before); !want.MatchString(got) {
			t.Errorf("%.60q: got %q, want %q", c.send, got, c.want)
		}
	}
	f.exchangeBytes("s", "", true) // a client that sends nothing is not logged
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count(read(t, f.path("log"))+read(t, f.path("second")), "\n"); n != 8 {
		t.Errorf("%d lines", n)
	}
}
