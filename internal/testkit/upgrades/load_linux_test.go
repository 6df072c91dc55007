package upgrades_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit/upgrades"
)

// A failed request of each client is reported: else the tests of upgrades would prove nothing.
func TestClientsReportLostRequests(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			if n == 0 { // the second request on the connection is lost
				req, err := http.ReadRequest(in)
				if err == nil {
					b, _ := io.ReadAll(req.Body)
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nPid: 1\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
					_, _ = http.ReadRequest(in)
				}
			}
			c.Close()
		}
	}()
	c := &upgrades.RawClient{Network: "tcp", Address: l.Addr().String()}
	defer c.Close()
	if pid, err := c.Request("/", "x"); pid != "1" || err != nil {
		t.Errorf("first request: %s, %v", pid, err)
	}
	if _, err := c.Request("/", "x"); err == nil {
		t.Error("a lost request is not reported")
	}
	other := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("y"))}
	if _, err := upgrades.CheckEcho(other, "x"); err == nil {
		t.Error("another body is not reported")
	}
}
