package cli

import (
	"fmt"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/testkit"
)

// A request arrives at the address of its URL if a socket receives it there, else at the first
// address with the port; at an address of HTTP/3, or at one of TLS without it, only if there is no
// other one.
func TestExplainedAddressIsTheReceivingOne(t *testing.T) {
	listener := func(addr string, tls, ipv6Only bool) nginxconf.Listener {
		return nginxconf.Listener{Listen: conf.Listen{Addr: addr, TLS: tls, IPv6Only: ipv6Only}}
	}
	listeners := []nginxconf.Listener{
		listener("*:80", false, false), listener("[::]:80", false, true), listener("192.0.2.1:81", false, false),
		listener("192.0.2.2:81", false, false), listener("quic:*:443", true, false), listener("*:443", true, false),
		listener("quic:192.0.2.3:444", true, false), listener("[::]:82", false, false),
		listener("unix:/run/s", false, false),
	}
	for text, want := range map[string]string{
		"http://a/":                   "tcp 127.0.0.1:80",
		"http://192.0.2.9/":           "tcp 192.0.2.9:80",
		"http://[2001:db8::1]/":       "tcp [2001:db8::1]:80",
		"http://[::ffff:192.0.2.9]/":  "tcp 192.0.2.9:80",
		"http://a:81/":                "tcp 192.0.2.1:81",
		"http://192.0.2.2:81/":        "tcp 192.0.2.2:81",
		"http://a:82/":                "tcp [::1]:82",
		"http://192.0.2.9:82/":        "tcp 192.0.2.9:82",
		"https://a/":                  "tcp 127.0.0.1:443",
		"https://a:444/":              "udp 192.0.2.3:444",
		"http+unix:///run/s:/x":       "unix /run/s",
		"http+unix:///run/s":          "unix /run/s",
		"https+unix:///run/s:/x":      "",
		"http://a:443/":               "tcp 127.0.0.1:443",
		"http://a:444/":               "",
		"https://a:81/":               "",
		"http+unix:///run/another:/x": "",
	} {
		target, socket, err := explainedURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := ""
		if addr, err := addressOf(listeners, target, socket); err == nil {
			got = fmt.Sprintf("%s %s", addr.Network(), addr)
		}
		testkit.Equal(t, got, want, text)
	}
}
