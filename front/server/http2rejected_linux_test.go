package server_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/upgrades"
)

// rejectedHead is a head, and the lines that nginx and tare log for it.
type rejectedHead struct {
	fields     string // names and values, between spaces
	raw        string // the end of the block
	nginx, own string
}

// rejectedHeads returns heads of which at least one server rejects each. nginx logs the status 000
// if it resets the stream or ends the connection; tare logs why it does.
func rejectedHeads() []rejectedHead {
	const get, same = ":method GET :scheme http :authority localhost :path ", "=" // as nginx
	return []rejectedHead{
		{get + "/good user-agent ua", "", "204 GET /good ua", same},
		{get + "/upper user-agent ua X-Upper x", "", "000 GET /upper ua", "400 GET /upper ua"},
		{get + "/value x a\nb", "", "000 GET /value -", "400 GET /value -"},
		{get + "/length content-length 1x", "", "400 GET /length -", same},
		{get + "/short content-length 5", "", "400 GET /short -", same},
		{get + "/hosts host other", "", "400 GET /hosts -", same},
		{get + "/new :foo x", "", "400 GET /new -", same},
		{get + "/status :status 200", "", "400 GET /status -", same},
		{":method GET :scheme http :authority localhost", "", "400 GET - -", "400 GET  -"},
		{":scheme http :authority localhost :path /nomethod", "", "400 - /nomethod -", same},
		{":method GET :authority localhost :path /noscheme", "", "400 GET /noscheme -", same},
		{":method GET :scheme http :path /host :authority a/b", "", "400 GET /host -", same},
		{":method G/T :scheme http :authority localhost :path /method", "", "400 G/T - -", "400 G/T /method -"},
		{":method CONNECT :authority localhost:1", "", "400 CONNECT - -", ""}, // tare responds by a handler
		{get + "/upgrade upgrade h2c", "", "204 GET /upgrade -", "400 GET /upgrade -"},
		{get + "/te te gzip", "", "204 GET /te -", "400 GET /te -"},
		{get + "/index", "\xff\x7f", "000 GET /index -", "400 GET /index -"},
		{get + "/cut", "\x00\x05ab", "000 GET /cut -", "400 GET /cut -"},
		{get + "/large x " + strings.Repeat("~", 60_000), "", "000 GET /large -", "431 GET /large -"},
	}
}

// sendHead sends a request, and reads until the server has rejected it or responded.
func sendHead(t *testing.T, socket string, h rejectedHead) {
	t.Helper()
	c, err := net.Dial("unix", socket)
	testkit.Must(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(upgrades.Patience))
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	_ = f.WriteSettings()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	fields := strings.Split(h.fields, " ")
	for i := 0; i+1 < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
	}
	block.WriteString(h.raw)
	for i := 0; block.Len() > 0; i++ {
		part := block.Next(16 << 10) // the largest frame
		if i == 0 {
			err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: block.Len() == 0,
				BlockFragment: part})
		} else {
			err = f.WriteContinuation(1, block.Len() == 0, part)
		}
		if err != nil {
			break // the server has ended the connection
		}
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame.(type) {
		case *http2.HeadersFrame, *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return
		}
	}
}

// Every request that a client has sent is in the access log, as in nginx, also if it was rejected
// before a handler has seen it.
func TestRejectedHTTP2RequestsAreLoggedAsByNginx(t *testing.T) {
	const logged = `log_format t '$status $request_method $uri $http_user_agent';
		server { listen unix:DIR/log http2; access_log DIR/access.log t; return 204; }`
	for _, byNginx := range []bool{true, false} {
		dir := filepath.Dir(serveHTTP2(t, byNginx, logged))
		var want []string
		for _, h := range rejectedHeads() {
			line := h.nginx
			if !byNginx && h.own != "=" {
				line = h.own
			}
			if line != "" {
				sendHead(t, filepath.Join(dir, "log"), h)
				want = append(want, line)
			}
		}
		var got []string
		testkit.WaitFor(t, "the lines", func() bool {
			b, _ := os.ReadFile(filepath.Join(dir, "access.log"))
			got = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
			return len(got) >= len(want)
		})
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("by nginx %t: got\n%s\nwant\n%s", byNginx, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
