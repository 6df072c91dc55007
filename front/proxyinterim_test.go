package front_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// Interim responses reach clients that support them, without hidden fields and fields of the final
// response.
func TestInterimResponsesAreForwarded(t *testing.T) {
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			io.WriteString(nc, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nConnection: X-Named\r\nX-Named: 1\r\nLink: </a>\r\nX-Secret: 1\r\nServer: app\r\n\r\n"+
				"HTTP/1.1 102 Processing\r\nContent-Length: 5\r\n\r\nHTTP/1.1 199 New\r\nLocation: http://app/x\r\nX-A: b\r\n\r\nHTTP/1.1 200 OK\r\nX-B: c\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	p := conf.Proxy{To: conf.Text(to), Hide: []string{"X-Secret"},
		Redirects: []conf.Replace{{From: "http://app/", To: "/"}}}
	c := proxyTo(p)
	c.Hosts[0].Locations[0].Settings = &conf.Settings{RelativeRedirects: true}
	a := serveHandler(t, newFront(t, c))
	for proto, want := range map[string]string{
		"HTTP/1.1": "103 map[Link:[</a>]], 102 map[], 199 map[Location:[/x] X-A:[b]], 200 c",
		"HTTP/1.0": "200 c",
	} {
		nc, err := net.Dial("unix", a.socket)
		must(t, err)
		defer nc.Close()
		must(t, nc.SetDeadline(time.Now().Add(maxWait)))
		fmt.Fprintf(nc, "GET / %s\r\nHost: x\r\nConnection: close\r\n\r\n", proto)
		br := bufio.NewReader(nc)
		got := ""
		for {
			resp, err := http.ReadResponse(br, nil)
			must(t, err)
			if resp.StatusCode >= 200 {
				got += fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("X-B"))
				break
			}
			got += fmt.Sprint(resp.StatusCode, " ", resp.Header, ", ")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", proto, got, want)
		}
	}
}
