package cli_test

import (
	"crypto/tls"
	"strings"
	"syscall"
	"testing"
)

// http2Hosts share ports. At the first one, only hosts with http2 on allow HTTP/2. At the second,
// all do because of listen. At the third, only a host that is not the default does.
const http2Hosts = `events {}
http {
	ssl_certificate one.pem; ssl_certificate_key one.key;
	server { listen PORT1 ssl; listen PORT2 ssl http2; listen PORT3 ssl; server_name off; http2 off; return 200 "off"; }
	server { listen PORT1 ssl; listen PORT2 ssl; server_name on; http2 on; return 200 "on"; }
	server { listen PORT1 ssl; listen PORT2 ssl; listen PORT3 ssl; server_name none; return 200 "none"; }
	server { listen PORT3 ssl; server_name *.on; http2 on; return 200 "on"; }
}
`

// A client that offers HTTP/2 gets it from hosts that allow it, as in nginx.
func TestHTTP2IsOfferedByHostsThatAllowIt(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	putCertificate(t, f.path("one.pem"), f.path("one.key"), 1)
	openToAll(t, f.path("one.pem"), f.path("one.key"))
	addrs := f.passed(3, http2Hosts)
	f.await("tare: running as ")
	check := func(want [3]string) {
		t.Helper()
		for i, addr := range addrs {
			for name := range strings.FieldsSeq("off on none a.on unknown") {
				config := &tls.Config{InsecureSkipVerify: true, ServerName: name,
					NextProtos: []string{"h2", "http/1.1"}}
				c, err := tls.Dial("tcp", addr, config)
				if err != nil {
					t.Fatal(err)
				}
				got := c.ConnectionState().NegotiatedProtocol
				c.Close()
				if h2 := strings.Contains(" "+want[i]+" ", " "+name+" "); h2 != (got == "h2") {
					t.Errorf("port %d, %s: %s", i+1, name, got)
				}
			}
		}
	}
	const all = "off on none a.on unknown"
	check([3]string{"on", all, "a.on"})
	f.configure(strings.NewReplacer("PORT1", addrs[0], "PORT2", addrs[1], "PORT3", addrs[2], "http2 off",
		"http2 on").Replace(http2Hosts))
	f.reload()
	check([3]string{"off on a.on unknown", all, "off on a.on unknown"})
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
