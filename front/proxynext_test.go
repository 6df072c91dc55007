package front_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/upstream"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// A malformed response is an invalid header, or an error if the connection ends too soon, as in
// nginx.
func TestMalformedResponseIsInvalidHeader(t *testing.T) {
	const (
		invalid = "invalid header"
		failed  = "error"
	)
	ended := func(out string, end wire.End) string {
		b := wire.AppendStream(nil, wire.Stdout, 1, []byte(out))
		return string(wire.AppendEnd(wire.AppendStreamEnd(b, wire.Stdout, 1), 1, end))
	}
	open := func(out string) string { return string(wire.AppendStream(nil, wire.Stdout, 1, []byte(out))) }
	for _, test := range []struct {
		protocol front.Protocol
		name     string
		sends    string
		stays    bool // the connection stays open
		want     string
	}{
		{front.HTTP, "rubbish", "rubbish\r\n\r\n", false, invalid},
		{front.HTTP, "rubbish without a line end", "hello", false, invalid},
		{front.HTTP, "rubbish, and silence", "hello", true, invalid},
		{front.HTTP, "no colon", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", false, invalid},
		{front.HTTP, "status", "HTTP/1.1 abc\r\n\r\n", false, invalid},
		{front.HTTP, "nothing", "", false, failed},
		{front.HTTP, "half a word", "HTT", false, failed},
		{front.HTTP, "half a head", "HTTP/1.1 200 OK\r\nX: y\r\n", false, failed},
		{front.FastCGI, "rubbish", "rubbish rubbish rubbish", false, invalid},
		{front.FastCGI, "no colon", ended("no colon\r\n\r\n", wire.End{}), false, invalid},
		{front.FastCGI, "status", ended("Status: abc\r\n\r\n", wire.End{}), false, invalid},
		{front.FastCGI, "no output", ended("", wire.End{}), false, invalid},
		{front.FastCGI, "half a head, and the end", ended("X: y\r\n", wire.End{}), false, invalid},
		{front.FastCGI, "an exit code", ended("", wire.End{App: 1}), false, invalid},
		{front.FastCGI, "overloaded", ended("", wire.End{Status: wire.Overloaded}), false, invalid},
		{front.FastCGI, "unknown role", ended("", wire.End{Status: wire.UnknownRole}), false, invalid},
		{front.FastCGI, "unknown status", ended("", wire.End{Status: 9}), false, invalid},
		{front.FastCGI, "nothing", "", false, failed},
		{front.FastCGI, "half a head", open("X: y\r\n"), false, failed},
		{front.FastCGI, "half a record", "\x01\x06\x00", false, failed},
	} {
		first := rawUpstream(t, func(nc net.Conn) {
			if test.protocol == front.FastCGI {
				_, _, _, _ = readApplication(nc)
			} else if _, err := http.ReadRequest(bufio.NewReader(nc)); err != nil {
				return
			}
			io.WriteString(nc, test.sends)
			if test.stays {
				_, _ = io.Copy(io.Discard, nc)
			}
		})
		second := application(t, nil, "")
		if test.protocol == front.HTTP {
			second = serve(t, echo)
		}
		for next, name := range map[*upstream.Next]string{{Error: true}: failed, {InvalidHeader: true}: invalid,
			{Off: true}: "off", {Timeout: true}: "timeout"} {
			c := proxyTo(front.Proxy{To: "up", Protocol: test.protocol, Next: *next})
			c.Upstreams = []upstream.Config{{Name: "up", Servers: []upstream.Server{{Addr: first, MaxFails: -1},
				{Addr: second, Backup: true}}}}
			want := 502
			if name == test.want {
				want = 200
			}
			if got := serveHandler(t, newFront(t, c, quiet())).get("/"); got.status != want {
				t.Errorf("%v: %s, next upstream after %s: %d, want %d", test.protocol, test.name, name, got.status,
					want)
			}
		}
	}
}
