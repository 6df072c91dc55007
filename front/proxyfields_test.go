package front_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// serveByTare is serveHandler with tare's server, which sends fields as they are.
func serveByTare(t testing.TB, h http.Handler) *testClient {
	t.Helper()
	socket := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", socket)
	must(t, err)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := tare.Wrap(&http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), Protocols: protocols})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return newTestClient(t, socket)
}

// A response is the same, and variables show the same of it, whether its head passes as it was
// received (tare's server) or by a Header (net/http's).
func TestRawHeadsEqualHeaders(t *testing.T) {
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		for in := bufio.NewReader(nc); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			status, fields, _ := strings.Cut(r.URL.Query().Get("head"), " ")
			fields = strings.NewReplacer("|", "\r\n", "UP", r.Host).Replace(fields)
			text := "HTTP/1.1 " + status + " X\r\n" + fields + "\r\n"
			if r.Method != "HEAD" && status != "204" && status != "304" {
				text += "body"
			}
			if _, err := io.WriteString(nc, text); err != nil {
				return
			}
		}
	})
	heads := []string{
		"200 content-length: 4|x-a: 1|ETag: \"x\"|", "200 Content-Length: 4|X-A: 1|x-a: 2|Content-Type: text/html|",
		"404 Content-Length: 4|X-A: 1|", "500 Content-Length: 4|WWW-Authenticate: Basic|",
		"204 X-A: 1|", "304 etag: 1|",
		"302 Content-Length: 4|location: http://UP/x|X-A: 1|",
		"302 Content-Length: 4|Location: /x|refresh: 1; url=http://UP/|",
		"200 Content-Length: 4|set-cookie: a=b; path=/u/|X-A: 1|Set-Cookie: c=d|",
		"200 Content-Length: 4|X-Accel-Redirect: /other|Set-Cookie: e=f|X-A: 1|",
		"200 Content-Length: 4|x-accel-buffering: no|",
		"200 Content-Length: 4|X-Accel-Limit-Rate: 100k|X-A: 1|",
		"200 Content-Length: 4|Connection: X-A, close|X-A: 1|",
		"200 Content-Length: 4|connection: Keep-Alive|X-A: 1|Proxy-Connection: x|Upgrade: y|",
		"200 content-length: 4|x-pad: 1|Server: x|",
		"200 Content-Length: 4|Cache-Control: no-cache|Expires: x|Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT|",
		"200 Content-Length: 4|Status: 404|Trailer: X-T|", "200 Transfer-Encoding: chunked|\r\n1\r\nx\r\n0\r\n\r\n",
	}
	cases := map[string]struct {
		proxy    conf.Proxy
		settings conf.Settings
	}{
		"plain":     {},
		"hide":      {proxy: conf.Proxy{Hide: []string{"x-A", "Location"}, Show: []string{"Server", "X-Accel-Buffering"}}},
		"ignore":    {proxy: conf.Proxy{Ignore: []string{"X-Accel-Redirect", "X-Accel-Buffering"}}},
		"redirects": {proxy: conf.Proxy{Redirects: []conf.Replace{{From: "/x", To: "/y"}}}},
		"cookies":   {proxy: conf.Proxy{CookiePaths: []conf.Replace{{From: "/u/", To: "/v/"}}}},
		"intercept": {proxy: conf.Proxy{Intercept: true},
			settings: conf.Settings{ErrorPages: []conf.ErrorPage{{Statuses: []int{500}, Target: "/other"}}}},
		"added": {settings: conf.Settings{Header: []conf.AddHeader{{Name: "X-A", Value: "$upstream_http_x_a+"},
			{Name: "X-Sent", Value: "$sent_http_x_a", Always: true}}}},
		"replaced": {settings: conf.Settings{Header: []conf.AddHeader{{Name: "Etag", Value: "y"}}}},
		"expires":  {settings: conf.Settings{Expires: &conf.Expires{Text: "1h"}}},
		"gzip":     {settings: conf.Settings{Gzip: &conf.Gzip{MinLength: 1}}},
		"noChunks": {settings: conf.Settings{NoChunks: true}},
		"rate":     {settings: conf.Settings{Rate: "100k"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.proxy.To, c.proxy.Version = conf.Text(to), "1.1"
			ours := compared(t, &c.proxy, c.settings, heads, serveByTare)
			theirs := compared(t, &c.proxy, c.settings, heads, serveHandler)
			for i := range theirs {
				if ours[i] != theirs[i] {
					t.Errorf("%s\n as received: %s\n by a Header: %s", heads[i/2], ours[i], theirs[i])
				}
			}
		})
	}
}

// compared returns the responses of a proxy, with their lines in the access log.
func compared(t *testing.T, p *conf.Proxy, s conf.Settings, heads []string,
	serve func(testing.TB, http.Handler) *testClient) (all []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	s.Logs = []conf.Log{{Path: path, Format: "f"}}
	c := oneHost(conf.Location{Path: "/", Proxy: p, Settings: &s},
		conf.Location{Path: "/other", Steps: []conf.Step{conf.Return{Status: 202, Text: "other"}}, Settings: &s})
	c.LogFormats = []conf.LogFormat{{Name: "f", Text: "$status $body_bytes_sent $bytes_sent $upstream_http_x_a " +
		"$sent_http_x_a $upstream_http_set_cookie $sent_http_set_cookie $sent_http_location $upstream_status"}}
	h, err := front.New(c, quiet())
	must(t, err)
	client := serve(t, h)
	for _, head := range heads {
		for _, method := range []string{"GET", "HEAD"} {
			got := client.do(method, "/?head="+url.QueryEscape(head), nil, "Accept-Encoding", "gzip")
			for _, name := range []string{"Date", "Connection", "Expires"} { // times, and what the server decides
				if value := got.header.Get(name); name != "Expires" || strings.HasSuffix(value, "GMT") {
					got.header.Del(name)
				}
			}
			all = append(all, fmt.Sprintf("%s %d %q %v", method, got.status, got.body, got.header))
		}
	}
	must(t, h.Close())
	text, err := os.ReadFile(path)
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != len(all) {
		t.Fatalf("%d lines for %d requests", len(lines), len(all))
	}
	for i := range all {
		all[i] += " log: " + lines[i]
	}
	return all
}
