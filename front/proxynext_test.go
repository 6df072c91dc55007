package front_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
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
		protocol string
		name     string
		sends    string
		stays    bool // the connection stays open
		want     string
	}{
		{"", "rubbish", "rubbish\r\n\r\n", false, invalid},
		{"", "rubbish without a line end", "hello", false, invalid},
		{"", "rubbish, and silence", "hello", true, invalid},
		{"", "no colon", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", false, invalid},
		{"", "status", "HTTP/1.1 abc\r\n\r\n", false, invalid},
		{"", "nothing", "", false, failed},
		{"", "half a word", "HTT", false, failed},
		{"", "half a head", "HTTP/1.1 200 OK\r\nX: y\r\n", false, failed},
		{"fastcgi", "rubbish", "rubbish rubbish rubbish", false, invalid},
		{"fastcgi", "no colon", ended("no colon\r\n\r\n", wire.End{}), false, invalid},
		{"fastcgi", "status", ended("Status: abc\r\n\r\n", wire.End{}), false, invalid},
		{"fastcgi", "no output", ended("", wire.End{}), false, invalid},
		{"fastcgi", "half a head, and the end", ended("X: y\r\n", wire.End{}), false, invalid},
		{"fastcgi", "an exit code", ended("", wire.End{App: 1}), false, invalid},
		{"fastcgi", "overloaded", ended("", wire.End{Status: wire.Overloaded}), false, invalid},
		{"fastcgi", "unknown role", ended("", wire.End{Status: wire.UnknownRole}), false, invalid},
		{"fastcgi", "unknown status", ended("", wire.End{Status: 9}), false, invalid},
		{"fastcgi", "nothing", "", false, failed},
		{"fastcgi", "half a head", open("X: y\r\n"), false, failed},
		{"fastcgi", "half a record", "\x01\x06\x00", false, failed},
	} {
		first := testkit.ServeTCP(t, func(nc net.Conn) {
			if test.protocol == "fastcgi" {
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
		if test.protocol == "" {
			second = serve(t, echo)
		}
		for next, name := range map[*conf.NextUpstream]string{{Error: true}: failed, {InvalidHeader: true}: invalid,
			{Off: true}: "off", {Timeout: true}: "timeout"} {
			c := proxyTo(conf.Proxy{To: "up", Protocol: test.protocol, Next: *next})
			c.Upstreams = []conf.Upstream{{Name: "up", Servers: []conf.Server{{Addr: first, MaxFails: -1},
				{Addr: second, Backup: true}}}}
			want := 502
			if name == test.want {
				want = 200
			}
			if got := serveHandler(t, newFront(t, c)).get("/"); got.status != want {
				t.Errorf("%v: %s, next upstream after %s: %d, want %d", test.protocol, test.name, name, got.status,
					want)
			}
		}
	}
}
