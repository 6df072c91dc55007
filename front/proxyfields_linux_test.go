package front_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// Fields of an upstream's response reach the client in the order and spelling of the upstream, as
// from nginx, by HTTP and by FastCGI.
func TestFieldsPassAsFromNginx(t *testing.T) {
	const length = "Content-Length: 4\r\n"
	heads := map[string]string{
		"spelling":   length + "ETag: \"x\"\r\nx-lower: 1\r\nX_Under: 2\r\nWWW-Authenticate: Basic\r\nX-REQUEST-ID: 3\r\n",
		"order":      "Z: 1\r\nB: 2\r\nA: 3\r\nb: 4\r\nZ: 5\r\n" + length,
		"cookies":    "Set-Cookie: a=b\r\nX-Between: 1\r\nset-cookie: c=d; path=/\r\n" + length,
		"hidden":     length + "X-Pad: x\r\nx-accel-expires: 5\r\nX-A: 1\r\nX-Hide: 2\r\nx-hide: 3\r\n",
		"connection": length + "Keep-Alive: timeout=5\r\nX-A: 1\r\nConnection: keep-alive\r\n",
		"values":     length + "X-A:  two  words  \r\nX-Empty:\r\nX-Utf8: \u00e4\xff\r\n",
		"unknown":    "ETag: 1\r\nX-a: 2\r\n",
		"chunked":    "Transfer-Encoding: chunked\r\nETag: 1\r\nX-a: 2\r\n",
		"caching":    length + "Cache-Control: max-age=1\r\nExpires: Thu, 01 Jan 1970 00:00:01 GMT\r\nVary: a\r\nAge: 1\r\n",
		"location":   length + "X-Before: 1\r\nlocation: http://other.example/\r\n",
	}
	body := func(head string) string {
		if strings.Contains(head, "chunked") {
			return "4\r\nbody\r\n0\r\n\r\n"
		}
		return "body"
	}
	find := func(path string) string { return heads[strings.Trim(path, "/")] }
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(nc))
		if err != nil {
			return
		}
		head := find(r.URL.Path)
		io.WriteString(nc, "HTTP/1.1 200 OK\r\n"+head+"\r\n")
		if r.Method != "HEAD" {
			io.WriteString(nc, body(head))
		}
	})
	application := testkit.ServeTCP(t, func(nc net.Conn) {
		params, _, _, err := readApplication(nc)
		if err != nil {
			return
		}
		text := "Status: 200 OK\r\n" + find(params["REQUEST_URI"]) + "\r\n"
		if params["REQUEST_METHOD"] != "HEAD" {
			text += "body"
		}
		b := wire.AppendStreamEnd(wire.AppendStream(nil, wire.Stdout, 1, []byte(text)), wire.Stdout, 1)
		nc.Write(wire.AppendEnd(b, 1, wire.End{}))
	})
	for _, c := range []string{
		"proxy_http_version 1.1; proxy_pass http://" + to + ";",
		"proxy_http_version 1.1; proxy_hide_header X-Hide; add_header X-Added $upstream_http_etag; proxy_pass http://" + to + ";",
		"fastcgi_param REQUEST_URI $request_uri; fastcgi_param REQUEST_METHOD $request_method; fastcgi_pass " + application + ";",
	} {
		block := "location / { " + c + " }"
		nginx, _ := serveNginx(t, "", block)
		us := serveByTare(t, newFront(t, parseConf(t, "", block)))
		for name, head := range heads {
			if strings.Contains(c, "fastcgi") && strings.Contains(head, "chunked") {
				continue // CGI has no chunks
			}
			for _, method := range []string{"GET", "HEAD"} {
				wantStatus, want := nginx.lines(method, "/"+name)
				status, got := us.lines(method, "/"+name)
				want, got = slices.DeleteFunc(want, own), slices.DeleteFunc(got, own)
				if status != wantStatus || !slices.Equal(got, want) {
					t.Errorf("%s\n%s %s: %s %q\n want %s %q", c, method, name, status, got, wantStatus, want)
				}
			}
		}
	}
}
