package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// The bytes sent to a SOCKS5 proxy, and the errors for its replies.
func TestSOCKSHandshake(t *testing.T) {
	const ok = "\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50"
	for _, test := range []struct {
		name, proxy, host, port string
		replies, sent, want     string
	}{
		{"IPv4", "socks5://p", "192.0.2.1", "80", "\x05\x00" + ok,
			"\x05\x01\x00" + "\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50", ""},
		{"IPv6", "socks5://p", "2001:db8::1", "443", "\x05\x00\x05\x00\x00\x04" + strings.Repeat("x", 18),
			"\x05\x01\x00" + "\x05\x01\x00\x04\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01\x01\xbb", ""},
		{"name", "socks5://p", "h", "80", "\x05\x00\x05\x00\x00\x03\x01x\x00\x50",
			"\x05\x01\x00" + "\x05\x01\x00\x03\x01h\x00\x50", ""},
		{"longest name", "socks5://p", "h", "80", "\x05\x00\x05\x00\x00\x03\xff" + strings.Repeat("x", 255) +
			"\x00\x50", "\x05\x01\x00" + "\x05\x01\x00\x03\x01h\x00\x50", ""},
		{"password", "socks5://u:pw@p", "h", "80", "\x05\x02\x01\x00" + ok,
			"\x05\x02\x00\x02" + "\x01\x01u\x02pw" + "\x05\x01\x00\x03\x01h\x00\x50", ""},
		{"password not required", "socks5://u:pw@p", "h", "80", "\x05\x00" + ok,
			"\x05\x02\x00\x02" + "\x05\x01\x00\x03\x01h\x00\x50", ""},

		{"wrong password", "socks5://u:pw@p", "h", "80", "\x05\x02\x01\x01", "\x05\x02\x00\x02" + "\x01\x01u\x02pw",
			"rejects user name and password"},
		{"no user name", "socks5://:pw@p", "h", "80", "\x05\x02", "\x05\x02\x00\x02",
			"invalid length of user name or password"},
		{"password required", "socks5://p", "h", "80", "\x05\x02", "\x05\x01\x00",
			"none of the offered authentication methods"},
		{"no common method", "socks5://u:pw@p", "h", "80", "\x05\xff", "\x05\x02\x00\x02",
			"none of the offered authentication methods"},
		{"SOCKS4", "socks5://p", "h", "80", "\x04\x00", "\x05\x01\x00", "SOCKS version 4, want 5"},
		{"refused", "socks5://p", "h", "80", "\x05\x00\x05\x05\x00\x01\x00",
			"\x05\x01\x00" + "\x05\x01\x00\x03\x01h\x00\x50", "connection refused"},
		{"unknown reply", "socks5://p", "h", "80", "\x05\x00\x05\x63\x00\x01\x00",
			"\x05\x01\x00" + "\x05\x01\x00\x03\x01h\x00\x50", "unknown reply code 99"},
		{"unknown address", "socks5://p", "h", "80", "\x05\x00\x05\x00\x00\x09\x00",
			"\x05\x01\x00" + "\x05\x01\x00\x03\x01h\x00\x50", "unknown address type 9"},
		{"cut off", "socks5://p", "h", "80", "\x05\x00\x05\x00", "\x05\x01\x00" + "\x05\x01\x00\x03\x01h\x00\x50",
			io.ErrUnexpectedEOF.Error()},
		{"long name", "socks5://p", strings.Repeat("h", 256), "80", "\x05\x00", "\x05\x01\x00",
			"longer than 255 bytes"},
		{"invalid port", "socks5://p", "h", "65536", "\x05\x00", "\x05\x01\x00", `invalid port "65536"`},
	} {
		proxy := testkit.Value(url.Parse(test.proxy))(t)
		nc := &recordingConn{scriptedConn: scriptedConn{text: test.replies, piece: 1}}
		err := socksTunnel(context.Background(), nc, proxy, &key{host: test.host, port: test.port})
		if test.want != "" {
			testkit.Error(t, err, test.want, test.name)
		} else if err != nil || nc.text != "" {
			t.Errorf("%s: %v, %d bytes are left", test.name, err, len(nc.text))
		}
		testkit.Equal(t, nc.written.String(), test.sent, test.name, "sent")
	}
	nc := &recordingConn{scriptedConn: scriptedConn{piece: 1,
		text: "\x05\x00" + ok + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}}
	config := dialing(nc)
	config.Settings.Proxy = http.ProxyURL(&url.URL{Scheme: "socks5", Host: "p"})
	testkit.Value(New(config).RoundTrip(request(t, "GET", "http://h/", nil)))(t).Body.Close()
	testkit.Contains(t, nc.written.String(), "\x05\x01\x00\x05\x01\x00\x03\x01h\x00\x50GET / HTTP/1.1\r\n", "tunnel")
}
