package cli_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// keepalive_requests also applies to HTTP/2, and none of the following requests is lost. The PROXY
// protocol may precede TLS.
func TestKeepaliveRequestsLosesNoHTTP2Request(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	putCertificate(t, f.path("one.pem"), f.path("one.key"), 1)
	openToAll(t, f.path("one.pem"), f.path("one.key"))
	addr := f.passed(1, `events {}
http {
	server {
		listen PORT1 ssl http2 proxy_protocol;
		ssl_certificate DIR/one.pem; ssl_certificate_key DIR/one.key;
		keepalive_requests 3;
		set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;
		location / { return 200 "$connection_requests $remote_addr"; }
	}
}
`)[0]
	f.await("tare: running as ")
	transport := &http.Transport{ForceAttemptHTTP2: true,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			fmt.Fprint(nc, "PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n")
			c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			return c, c.HandshakeContext(ctx)
		}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: patience}
	var got []string
	for range 9 {
		resp, err := client.Post("https://any/", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.ProtoMajor != 2 {
			t.Fatal(resp.Proto, err)
		}
		got = append(got, string(b))
	}
	want := strings.Repeat("1 192.0.2.1,2 192.0.2.1,3 192.0.2.1,", 3)
	if all := strings.Join(got, ",") + ","; all != want {
		t.Errorf("got %s\nwant %s", all, want)
	}
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
