package upgrades_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/upgrades"
)

// A failed request of each client is reported: else the tests of upgrades would prove nothing.
func TestClientsReportLostRequests(t *testing.T) {
	var conns atomic.Int32
	address := testkit.ServeTCP(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		if req, err := http.ReadRequest(in); conns.Add(1) == 1 && err == nil {
			b, _ := io.ReadAll(req.Body)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nPid: 1\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
			_, _ = http.ReadRequest(in) // is lost
		}
	})
	c := &upgrades.RawClient{Network: "tcp", Address: address}
	defer c.Close()
	testkit.Equal(t, testkit.Value(c.Request("/", "x"))(t), "1", "first request")
	testkit.Fails(c.Request("/", "x"))(t, "", "a lost request")
	other := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("y"))}
	testkit.Fails(upgrades.CheckEcho(other, "x"))(t, "", "another body")
}
