package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// spell formats the records of a FastCGI request, in order.
func spell(t *testing.T, b []byte) string {
	t.Helper()
	var s strings.Builder
	var params []byte
	for len(b) > 0 {
		n := 8 + int(binary.BigEndian.Uint16(b[4:]))
		if b[0] != 1 || b[6] != 0 || b[7] != 0 || b[2] != 0 || b[3] != 1 {
			t.Fatalf("header % x", b[:8])
		}
		typ, content := b[1], b[8:n]
		b = b[n:]
		switch {
		case typ == 4 && len(content) > 0:
			params = append(params, content...)
			continue
		case typ == 4:
			fmt.Fprintf(&s, "%s[4]", pairs(params))
		default:
			fmt.Fprintf(&s, "[%d %.20q %d]", typ, content, len(content))
		}
	}
	return s.String()
}

// pairs formats a list of parameters, one per line.
func pairs(b []byte) string {
	length := func() int {
		n := int(b[0])
		if n < 128 {
			b = b[1:]
			return n
		}
		n = int(binary.BigEndian.Uint32(b) & 0x7fffffff)
		b = b[4:]
		return n
	}
	var s strings.Builder
	for len(b) > 0 {
		name, value := length(), 0
		value = length()
		fmt.Fprintf(&s, "%s=%s\n", b[:name], b[name:name+value])
		b = b[name+value:]
	}
	return s.String()
}

func TestFastCGIRequestsHaveExpectedRecords(t *testing.T) {
	const begin = `[1 "\x00\x01\x01\x00\x00\x00\x00\x00" 8]`
	for _, test := range []struct {
		plan Plan
		want []string
	}{
		{Plan{URL: "fcgi://127.0.0.1:9001/a%20b/?x=1&y"}, []string{begin + `QUERY_STRING=x=1&y
REQUEST_METHOD=GET
CONTENT_TYPE=
CONTENT_LENGTH=
SCRIPT_NAME=/a b/
REQUEST_URI=/a%20b/?x=1&y
DOCUMENT_URI=/a b/
DOCUMENT_ROOT=/var/www/html
SCRIPT_FILENAME=/var/www/html/a b/
SERVER_PROTOCOL=HTTP/1.1
REQUEST_SCHEME=http
GATEWAY_INTERFACE=CGI/1.1
SERVER_SOFTWARE=tare
REMOTE_ADDR=127.0.0.1
REMOTE_PORT=49152
SERVER_ADDR=127.0.0.1
SERVER_PORT=9001
SERVER_NAME=127.0.0.1
REDIRECT_STATUS=200
HTTP_HOST=127.0.0.1:9001
HTTP_USER_AGENT=tare
[4][5 "" 0]`}},
		{Plan{URL: "fcgi+unix:///run/a.sock", Method: "POST"}, []string{
			"CONTENT_LENGTH=0\n", "SCRIPT_NAME=/\n", "REQUEST_URI=/\n", "DOCUMENT_URI=/\n",
			"SERVER_ADDR=127.0.0.1\nSERVER_PORT=80\nSERVER_NAME=localhost\n",
			"REMOTE_ADDR=127.0.0.1\n", "HTTP_HOST=localhost\n", `[4][5 "" 0]`,
		}},
		{Plan{URL: "fcgi://[::1]/", Header: []string{"host: h", "User-Agent: u", "Content-Type: t", "content-length: 9",
			"X-A: 1", "x-a:2", "Cookie: a=1", "Cookie: b=2"}}, []string{
			"CONTENT_TYPE=t\nCONTENT_LENGTH=9\n", "SERVER_ADDR=::1\nSERVER_PORT=9000\nSERVER_NAME=::1\n",
			"HTTP_HOST=h\nHTTP_USER_AGENT=u\nHTTP_X_A=1, 2\nHTTP_COOKIE=a=1; b=2\n[4]",
		}},
		{Plan{URL: "fcgi://127.0.0.1/i.php",
			Params: []string{"DOCUMENT_ROOT=/srv", "PATH_INFO=/a=b", "HTTPS=on", "HTTPS=off", "REMOTE_PORT="}},
			[]string{
				"DOCUMENT_ROOT=/srv\nSCRIPT_FILENAME=/srv/i.php\n", "REMOTE_PORT=\n",
				"\nPATH_INFO=/a=b\nHTTPS=off\n[4]",
			}},
		{Plan{URL: "fcgi://127.0.0.1/", Params: []string{"SCRIPT_FILENAME=/a.php"}},
			[]string{"DOCUMENT_ROOT=/var/www/html\nSCRIPT_FILENAME=/a.php\n"}},
		{Plan{URL: "fcgi://127.0.0.1/", Method: "PUT", Body: "hello"},
			[]string{"CONTENT_LENGTH=5\n", `[4][5 "hello" 5][5 "" 0]`}},
		{Plan{URL: "fcgi://127.0.0.1/", Body: strings.Repeat("b", 65_535+2)}, []string{
			"CONTENT_LENGTH=65537\n", `[4][5 "bbbbbbbbbbbbbbbbbbbb" 65535][5 "bb" 2][5 "" 0]`,
		}},
		{Plan{URL: "fcgi://127.0.0.1/", Header: []string{"X: " + strings.Repeat("x", 70_000)}},
			[]string{"HTTP_X=" + strings.Repeat("x", 70_000) + "\n[4]"}},
	} {
		j, err := test.plan.prepare(context.Background())
		if err != nil {
			t.Errorf("%+v: %v", test.plan, err)
			continue
		}
		got := spell(t, []byte(payload(j)))
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf(" got %s\nwant %s", got, want)
			}
		}
	}
}

func TestURLsAreParsed(t *testing.T) {
	for text, want := range map[string]string{
		"http://h/":                        `"" http://h:80 Host h / "/" ""`,
		"HTTP://h:81?a":                    `"" http://h:81 Host h:81 /?a "/" "a"`,
		"fcgi://h/a%2fb":                   `"" fcgi://h:9000 Host h /a%2fb "/a/b" ""`,
		"fcgi://[::1]:9001":                `"" fcgi://::1:9001 Host [::1]:9001 / "/" ""`,
		"http+unix:///s":                   `"/s" http://localhost:80 Host localhost / "/" ""`,
		"http+unix:///s:":                  `"/s" http://localhost:80 Host localhost / "/" ""`,
		"http+unix:///run/a.sock?x=:":      `"/run/a.sock" http://localhost:80 Host localhost /?x=: "/" "x=:"`,
		"fcgi+unix:///run/a.sock:/b?c#d":   `"/run/a.sock" fcgi://localhost:9000 Host localhost /b?c "/b" "c"`,
		"fcgi+unix:///run/a.sock:/b:c/:d":  `"/run/a.sock" fcgi://localhost:9000 Host localhost /b:c/:d "/b:c/:d" ""`,
		"fcgi+unix:///a%3Ab%20c:/d%3ae%20": `"/a:b c" fcgi://localhost:9000 Host localhost /d%3ae%20 "/d:e " ""`,
	} {
		p, err := parseURL(text, HTTP11)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		scheme := "http"
		if p.protocol == (fcgiProtocol{}) {
			scheme = "fcgi"
		}
		if got := fmt.Sprintf("%q %s://%s:%s Host %s %s %q %q", p.socket, scheme, p.name, p.port, p.host, p.target,
			p.path, p.query); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
	long := "/" + strings.Repeat("s", maxSocketPath-1)
	if p, err := parseURL("http+unix://"+long, HTTP11); err != nil || p.socket != long {
		t.Errorf("%q: %v", p.socket, err)
	}
}
