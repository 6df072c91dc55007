package cli_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// TLS and plain sockets coexist. Each host has its own certificate, which is renewed; some hosts
// reject handshakes.
func TestHostsHaveTheirOwnCertificates(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	for number, name := range []string{"one", "two"} {
		putCertificate(t, f.path(name+".pem"), f.path(name+".key"), int64(number)+1)
		openToAll(t, f.path(name+".pem"), f.path(name+".key"))
	}
	const conf = `events {}
http {
	server { listen PORT1 ssl http2; server_name one.example; ssl_certificate DIR/one.pem; ssl_certificate_key DIR/one.key; return 200 "one"; }
	server { listen PORT1 ssl; server_name two.example; ssl_certificate DIR/two.pem; ssl_certificate_key DIR/two.key; return 200 "two"; }
	server { listen PORT1 ssl; server_name closed.example; ssl_reject_handshake on; }
	server { listen PORT2; return 200 "plain"; }
}
`
	addrs := f.passed(2, conf)
	f.await("tare: running as ")
	get(t, client(t, nil), "http://"+addrs[1], "plain")
	request := func(name string) (int64, error) {
		c, err := tls.Dial("tcp", addrs[0], &tls.Config{ServerName: name, InsecureSkipVerify: true,
			NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			return 0, err
		}
		defer c.Close()
		if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
			t.Errorf("%s: protocol %q", name, got)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
	}
	for name, want := range map[string]int64{"one.example": 1, "two.example": 2, "other.example": 1, "": 1} {
		if got, err := request(name); got != want || err != nil {
			t.Errorf("%q: certificate %d, want %d, %v", name, got, want, err)
		}
	}
	if _, err := request("closed.example"); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("got %v", err)
	}
	putCertificate(t, f.path("two.pem"), f.path("two.key"), 3)
	openToAll(t, f.path("two.pem"), f.path("two.key"))
	f.reload()
	if got, err := request("two.example"); got != 3 || err != nil {
		t.Errorf("certificate %d, want the new one, %v", got, err)
	}
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// openToAll makes files readable by the user that the server becomes.
func openToAll(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		testkit.Must(t, os.Chmod(name, 0o644))
	}
}

// Hosts are selected by the socket's address. The client's address is the one that the proxy
// reports only if the proxy is trusted. Connections without a PROXY protocol header are closed.
func TestProxyProtocolIsTrustedOnlyFromTrustedProxies(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	addrs := f.passed(4, `events {}
http {
	client_header_timeout 1s;
	server { listen PORT1 proxy_protocol; location / { return 200 "$remote_addr $proxy_protocol_addr:$proxy_protocol_port"; } }
	server { listen PORT2; location / { return 200 "other $remote_addr$proxy_protocol_addr$proxy_protocol_port"; } }
	server { listen PORT3 proxy_protocol; set_real_ip_from 127.0.0.0/8; real_ip_header proxy_protocol; return 200 "$remote_addr"; }
	server { listen PORT4 proxy_protocol; set_real_ip_from 10.0.0.0/8; real_ip_header proxy_protocol; return 200 "$remote_addr"; }
}
`)
	f.await("tare: running as ")
	request := func(addr, before string) string {
		c, err := net.Dial("tcp", addr)
		testkit.Must(t, err)
		defer c.Close()
		testkit.Must(t, c.SetDeadline(time.Now().Add(patience)))
		fmt.Fprintf(c, "%sGET / HTTP/1.0\r\n\r\n", before)
		b, _ := io.ReadAll(c)
		_, body, _ := strings.Cut(string(b), "\r\n\r\n")
		return body
	}
	if got := request(addrs[0], "PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n"); got != "127.0.0.1 192.0.2.1:1000" {
		t.Errorf("got %q", got)
	}
	if got := request(addrs[0], ""); strings.Contains(got, "127.0.0.1") {
		t.Errorf("served without: %q", got)
	}
	f.await("http: connection from 127.0.0.1:[0-9]+ closed: malformed PROXY protocol header")
	c, err := net.Dial("tcp", addrs[0])
	testkit.Must(t, err)
	defer c.Close()
	fmt.Fprint(c, "PROXY TCP4 192.0.2.1 ") // and never more
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
		t.Errorf("part of a header: %q, %v", b, err)
	}
	for i, want := range map[int]string{2: "192.0.2.1", 3: "127.0.0.1"} { // the second is not trusted
		if got := request(addrs[i], "PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := request(addrs[1], ""); got != "other 127.0.0.1" {
		t.Errorf("got %q", got)
	}
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

const secured = `events {}
http {
	server {
		listen PORT1 ssl http2;
		ssl_certificate DIR/one.pem; ssl_certificate_key DIR/one.key;
		location / { return 200 "before"; }
	}
}
`

// No request over TLS is lost while connections move to new servers, with HTTP/1.1 and HTTP/2.
// Clients do not retry POST once it may have arrived.
func TestReloadLosesNoTLSRequest(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	putCertificate(t, f.path("one.pem"), f.path("one.key"), 1)
	openToAll(t, f.path("one.pem"), f.path("one.key"))
	addrs := f.passed(1, secured)
	f.await("tare: running as ")
	stop, results := make(chan struct{}), make(chan error, 4)
	var served [2]atomic.Int64
	for i := range 4 {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(i%2 == 0)
		protocols.SetHTTP2(i%2 == 1)
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: protocols}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport, Timeout: patience}
		go func() {
			for {
				select {
				case <-stop:
					results <- nil
					return
				default:
				}
				resp, err := client.Post("https://"+addrs[0], "text/plain", strings.NewReader("x"))
				if err != nil {
					results <- err
					return
				}
				resp.Body.Close()
				served[i%2].Add(1)
			}
		}()
	}
	for n := range 5 {
		before := [2]int64{served[0].Load(), served[1].Load()}
		f.configure(strings.NewReplacer("PORT1", addrs[0], "before", fmt.Sprint(n)).Replace(secured))
		f.reload()
		for late := time.Now().Add(patience); served[0].Load() < before[0]+20 ||
			served[1].Load() < before[1]+20; time.Sleep(time.Millisecond) {
			select {
			case err := <-results:
				t.Fatal(err)
			default:
			}
			if time.Now().After(late) {
				t.Fatal("requests are no longer served")
			}
		}
	}
	close(stop)
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if code := f.end(syscall.SIGQUIT); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
