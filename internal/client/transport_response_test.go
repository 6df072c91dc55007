package client_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// responses returns responses with many combinations of status, fields and framing, in parts that
// are sent one after another.
func responses() (all [][2]string) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, "unzipped")
	_ = z.Close()
	for _, status := range []string{"200 OK", "200", "200 ", "200  OK ", "204 No Content", "205 Reset Content",
		"304 Not Modified", "301 Moved", "500 Internal\x80Error", "599 ", "999 Odd"} {
		for _, fields := range []string{
			"", "Content-Length: 0\n", "Content-Length: 5\n", "Content-Length:   5  \nConnection: close\n",
			"Content-Length: 5\nConnection: Close, X-Hop\nConnection: X-More\nX-Hop: 1\n", "Connection: close\n",
			"Content-Length: 5\nConnection: keep-alive\nKeep-Alive: timeout=5\n", "Trailer: X-Sum\nContent-Length: 5\n",
			"Content-Length: 5\nPragma: no-cache\n", "Content-Length: 5\nContent-Encoding: br\n",
			"Transfer-Encoding: chunked\n", "Transfer-Encoding: chunked\nTrailer: X-Sum, x-other\nConnection: close\n",
			"Content-Encoding: gzip\nContent-Length: @\n", "Content-Encoding: GZIP\nConnection: close\n",
			"Content-Encoding: gzip\nContent-Length: 0\n", "Content-Encoding: gzip\nTransfer-Encoding: chunked\n",
			"Content-Length: 5\nX-A: 1\nx-a: 2\nX-A: \n", "Upgrade: h2c\nContent-Length: 5\n",
		} {
			body, isChunked := "hello", strings.Contains(fields, "chunked")
			switch {
			case strings.Contains(fields, "Length: 0"):
				body = ""
			case strings.Contains(strings.ToLower(fields), "gzip"):
				body = zipped.String()
			}
			if isChunked {
				body = fmt.Sprintf("%x\r\n%s\r\n0\r\nX-Sum: 1\r\nX-Late: 2\r\n\r\n", len(body), body)
			}
			fields = strings.ReplaceAll(strings.ReplaceAll(fields, "@", fmt.Sprint(zipped.Len())), "\n", "\r\n")
			all = append(all, [2]string{"HTTP/1.1 " + status + "\r\n" + fields + "\r\n", body})
			if !isChunked {
				all = append(all, [2]string{"HTTP/1.0 " + status + "\r\n" + fields + "\r\n", body})
			}
		}
	}
	return all
}

// Responses have the fields that net/http's Transport gives them, and bodies that behave in the
// same way.
func TestTransportReturnsResponsesOfNetHTTP(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "CONNECT"} {
		for _, parts := range responses() {
			if method == "CONNECT" && strings.Contains(parts[0], " 20") {
				continue // a tunnel
			}
			compareResponses(t, parts, func(url string) *http.Request { return mustRequest(method, url, nil) })
		}
	}
	for _, fields := range []string{"", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"} {
		head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n" + fields + "\r\n"
		compareResponses(t, [2]string{head, "hello"}, upgradeRequest)
	}
}

func upgradeRequest(url string) *http.Request {
	r := mustRequest("GET", url, nil)
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
	return r
}

// compareResponses sends a request with both transports to a server that responds with the parts.
func compareResponses(t *testing.T, parts [2]string, request func(url string) *http.Request) {
	t.Helper()
	p := newPeer(t, "tcp")
	defer p.l.Close()
	p.runScript(func(_ int, c *scripted) {
		r := c.request()
		if r == nil {
			return
		}
		_, _ = io.WriteString(c, parts[0])
		if r.Method != "HEAD" && !strings.Contains(parts[0], " 204") && !strings.Contains(parts[0], " 304") {
			_, _ = io.WriteString(c, parts[1])
		}
	})
	theirs := new(http.Transport)
	defer theirs.CloseIdleConnections()
	var got [2]string
	for i, rt := range []http.RoundTripper{p.tr, theirs} {
		r := request(p.url)
		resp, err := rt.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s %q: %T: %v", r.Method, parts, rt, err)
		}
		got[i] = describeResponse(resp, r)
	}
	if got[0] != got[1] {
		t.Errorf("%s %q:\n%s\nnet/http:\n%s", request(p.url).Method, parts, got[0], got[1])
	}
}

// describeResponse describes all fields of a response, and how its body behaves.
func describeResponse(resp *http.Response, r *http.Request) string {
	_, writes := resp.Body.(io.Writer)
	head := fmt.Sprintf("%q %d %s %d.%d %q length %d %q close %v uncompressed %v trailer %v TLS %v request %v none %v "+
		"writes %v", resp.Status, resp.StatusCode, resp.Proto, resp.ProtoMajor, resp.ProtoMinor, resp.Header,
		resp.ContentLength, resp.TransferEncoding, resp.Close, resp.Uncompressed, resp.Trailer, resp.TLS != nil,
		resp.Request == r, resp.Body == http.NoBody, writes)
	b, err := io.ReadAll(resp.Body)
	n, again := resp.Body.Read(make([]byte, 1))
	closed := resp.Body.Close()
	_, late := resp.Body.Read(make([]byte, 1))
	return head + fmt.Sprintf(" body %q %v, then %d %v, trailer %q, closed %v, fails %v", b, err, n, again,
		resp.Trailer, closed, late != nil)
}
