package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// The header of the PROXY protocol sets the client's address, with TLS and without, also if a
// request arrives together with the header.
func TestProxyProtocolSetsAddress(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "tare") // the path of a socket must be short
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost"}})
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "key"), append(cert, key...), 0o600))
	name := filepath.Join(dir, "nginx.conf")
	content := strings.ReplaceAll(`events {}
		http {
			access_log off; set_real_ip_from unix:; real_ip_header proxy_protocol;
			ssl_certificate DIR/key; ssl_certificate_key DIR/key;
			server {
				listen unix:DIR/plain proxy_protocol; listen unix:DIR/secure ssl proxy_protocol;
				return 200 $remote_addr;
			}
		}`, "DIR", dir)
	testkit.Must(t, os.WriteFile(name, []byte(content), 0o600))
	ready, ended := make(chan struct{}, 1), make(chan error, 1)
	s := server.New(server.File{Path: name, Options: nginxconf.Options{Prefix: dir}}, server.Options{
		Stdout: io.Discard, Stderr: io.Discard, NoSignals: true, Ready: func() { ready <- struct{}{} },
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(cancel)
	select {
	case <-ready:
		t.Cleanup(func() { cancel(); <-ended })
	case err := <-ended:
		t.Fatal(err)
	}
	for i, socket := range []string{"plain", "secure", "plain", "secure"} {
		c, err := net.Dial("unix", filepath.Join(dir, socket))
		testkit.Must(t, err)
		c.SetDeadline(time.Now().Add(time.Minute))
		address := fmt.Sprintf("192.0.2.%d", i+1)
		const request = "GET / HTTP/1.0\r\n\r\n"
		header := "PROXY TCP4 " + address + " 192.0.2.99 1000 80\r\n"
		if socket == "plain" {
			io.WriteString(c, header+request)
		} else {
			io.WriteString(c, header)
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
			io.WriteString(c, request)
		}
		if b, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(b), "\r\n\r\n"+address) {
			t.Errorf("%s: response %q, %v; want %s", socket, b, err, address)
		}
		c.Close()
	}
}
