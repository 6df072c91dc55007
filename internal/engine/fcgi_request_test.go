package engine_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/engine/fastcgi"
)

// fcgiDump responds with everything that a handler can observe of its request.
func fcgiDump(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %q %s %d.%d\n", r.Method, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor)
	fmt.Fprintf(w, "url %#v\n", *r.URL)
	fmt.Fprintf(w, "host %q remote %q tls %v close %v\n", r.Host, r.RemoteAddr, r.TLS != nil, r.Close)
	fmt.Fprintf(w, "header %v\n", r.Header)
	fmt.Fprintf(w, "length %d coding %v nobody %v trailer %v\n", r.ContentLength, r.TransferEncoding,
		r.Body == http.NoBody, r.Trailer)
	fmt.Fprintf(w, "body %q %v\n", shorten(body), err)
	fmt.Fprintf(w, "params %v\n", maps.Collect(fastcgi.Params(r.Context())))
}

// likeNginx is the list of parameters that nginx sends with its fastcgi_params.
var likeNginx = []string{
	"QUERY_STRING", "c=d", "REQUEST_METHOD", "GET", "CONTENT_TYPE", "", "CONTENT_LENGTH", "",
	"SCRIPT_NAME", "/a/b", "REQUEST_URI", "/a/b?c=d", "DOCUMENT_URI", "/a/b", "DOCUMENT_ROOT", "/srv/www",
	"SERVER_PROTOCOL", "HTTP/1.1", "REQUEST_SCHEME", "http", "GATEWAY_INTERFACE", "CGI/1.1", "SERVER_SOFTWARE",
	"nginx/1.28.0",
	"REMOTE_ADDR", "192.0.2.7", "REMOTE_PORT", "40000", "REMOTE_USER", "ann", "SERVER_ADDR", "192.0.2.1",
	"SERVER_PORT", "80", "SERVER_NAME", "_",
	"REDIRECT_STATUS", "200", "HTTP_HOST", "example.org", "HTTP_USER_AGENT", "curl/8.5.0", "HTTP_ACCEPT", "*/*",
}

// listed returns a request with exactly these parameters.
func listed(pairs ...string) string {
	return begins(1, true) + inRecords(paramsStream, 1, largestContent, nameValues(pairs...)) + rec(stdinStream, 1, "")
}

// fcgiRequests are parameters with the expected lines of fcgiDump's response, or the start of the
// response of a rejected request.
var fcgiRequests = map[string]struct{ request, want string }{
	"as nginx sends it": {listed(likeNginx...), `GET "/a/b?c=d" HTTP/1.1 1.1
url url.URL{Scheme:"", Opaque:"", User:(*url.Userinfo)(nil), Host:"", Path:"/a/b", Fragment:"", RawQuery:"c=d", RawPath:"", RawFragment:"", ForceQuery:false, OmitHost:false}
host "example.org" remote "192.0.2.7:40000" tls false close false
header map[Accept:[*/*] User-Agent:[curl/8.5.0]]
length 0 coding [] nobody true trailer map[]
body "" <nil>
params map[CONTENT_LENGTH: CONTENT_TYPE: DOCUMENT_ROOT:/srv/www DOCUMENT_URI:/a/b GATEWAY_INTERFACE:CGI/1.1 HTTP_ACCEPT:*/* HTTP_HOST:example.org HTTP_USER_AGENT:curl/8.5.0 QUERY_STRING:c=d REDIRECT_STATUS:200 REMOTE_ADDR:192.0.2.7 REMOTE_PORT:40000 REMOTE_USER:ann REQUEST_METHOD:GET REQUEST_SCHEME:http REQUEST_URI:/a/b?c=d SCRIPT_NAME:/a/b SERVER_ADDR:192.0.2.1 SERVER_NAME:_ SERVER_PORT:80 SERVER_PROTOCOL:HTTP/1.1 SERVER_SOFTWARE:nginx/1.28.0]
`},

	"other method": {fcgiRequest{method: "PROPFIND"}.String(), `PROPFIND "/" HTTP/1.1`},
	"HTTP/2.0": {listed("REQUEST_METHOD", "GET", "SERVER_PROTOCOL", "HTTP/2.0", "REQUEST_URI", "/"),
		`GET "/" HTTP/2.0 2.0`},
	"included": {listed("REQUEST_METHOD", "GET", "SERVER_PROTOCOL", "INCLUDED", "REQUEST_URI", "/"),
		`GET "/" INCLUDED 1.0`},
	"HTTP/1.0": {listed("REQUEST_METHOD", "GET", "SERVER_PROTOCOL", "HTTP/1.0", "REQUEST_URI", "/"),
		`GET "/" HTTP/1.0 1.0`},
	"last of two": {fcgiRequest{params: []string{"REQUEST_METHOD", "PUT"}}.String(), `PUT "/" HTTP/1.1`},
	"escaped": {fcgiRequest{uri: "/a%2Fb%20c?d%20e"}.String(),
		`Path:"/a/b c", Fragment:"", RawQuery:"d%20e", RawPath:"/a%2Fb%20c"`},
	"empty query": {fcgiRequest{uri: "/a?"}.String(),
		`Path:"/a", Fragment:"", RawQuery:"", RawPath:"", RawFragment:"", ForceQuery:true`},
	"absolute target": {fcgiRequest{uri: "http://b:80/c", params: []string{"HTTP_HOST", "a"}}.String(),
		`host "b:80" remote`},
	"OPTIONS *": {fcgiRequest{method: "OPTIONS", uri: "*"}.String(), `OPTIONS "*" HTTP/1.1`},

	"without REQUEST_URI": {located("SCRIPT_NAME", "/app", "PATH_INFO", "/x/y", "QUERY_STRING", "q=1"),
		`GET "/app/x/y?q=1" HTTP/1.1 1.1` + "\n" +
			`url url.URL{Scheme:"", Opaque:"", User:(*url.Userinfo)(nil), Host:"", Path:"/app/x/y", ` +
			`Fragment:"", RawQuery:"q=1"`},
	"without, unescaped": {located("SCRIPT_NAME", "/a b", "PATH_INFO", "/c?d"),
		`GET "/a%20b/c%3Fd" HTTP/1.1 1.1` + "\n" +
			`url url.URL{Scheme:"", Opaque:"", User:(*url.Userinfo)(nil), Host:"", Path:"/a b/c?d"`},
	"without, no query":        {located("SCRIPT_NAME", "/a", "QUERY_STRING", ""), `GET "/a" HTTP/1.1`},
	"without, PATH_INFO alone": {located("PATH_INFO", "/a"), `GET "/a" HTTP/1.1`},
	"without, nothing":         {located(), `GET "/" HTTP/1.1`},
	"without, query that breaks out": {located("SCRIPT_NAME", "/", "QUERY_STRING", "a b"),
		"400 Bad Request: malformed request target"},

	"remote": {fcgiRequest{params: []string{"REMOTE_ADDR", "192.0.2.1", "REMOTE_PORT", "65535"}}.String(),
		`remote "192.0.2.1:65535"`},
	"remote, IPv6": {fcgiRequest{params: []string{"REMOTE_ADDR", "2001:db8::1", "REMOTE_PORT", "1"}}.String(),
		`remote "[2001:db8::1]:1"`},
	"remote without a port": {fcgiRequest{params: []string{"REMOTE_ADDR", "192.0.2.1"}}.String(),
		`remote "192.0.2.1:0"`},
	"remote, bad port": {fcgiRequest{params: []string{"REMOTE_ADDR", "192.0.2.1", "REMOTE_PORT", "65536"}}.String(),
		`remote "192.0.2.1:0"`},
	"no remote": {aGET("/"), `remote ":0"`},

	"HTTPS on":    {fcgiRequest{params: []string{"HTTPS", "on"}}.String(), "tls true"},
	"HTTPS 1":     {fcgiRequest{params: []string{"HTTPS", "1"}}.String(), "tls true"},
	"HTTPS off":   {fcgiRequest{params: []string{"HTTPS", "off"}}.String(), "tls false"},
	"HTTPS empty": {fcgiRequest{params: []string{"HTTPS", ""}}.String(), "tls false"},

	"host":            {fcgiRequest{params: []string{"HTTP_HOST", "a:8080"}}.String(), `host "a:8080"`},
	"host, no header": {fcgiRequest{params: []string{"HTTP_HOST", "a"}}.String(), "header map[]\n"},
	"no host":         {aGET("/"), `host "" remote`},
	"empty host":      {fcgiRequest{params: []string{"HTTP_HOST", ""}}.String(), `host "" remote`},

	"names": {fcgiRequest{params: []string{"HTTP_X_FORWARDED_FOR", "1", "HTTP_SEC_CH_UA", "2", "HTTP_ETAG", "3",
		"HTTP_TE",
		"4", "HTTP_WWW_AUTHENTICATE", "5", "HTTP_X_UNHEARD_OF", "6", "HTTP_x_lower", "7"}}.String(),
		"header map[Etag:[3] Sec-Ch-Ua:[2] Te:[4] Www-Authenticate:[5] X-Forwarded-For:[1] X-Lower:[7] " +
			"X-Unheard-Of:[6]]"},
	"repeated names": {fcgiRequest{params: []string{"HTTP_COOKIE", "a=b", "HTTP_X_A", "1", "HTTP_COOKIE", "c=d",
		"HTTP_x_a",
		"2", "HTTP_X_A", ""}}.String(),
		"header map[Cookie:[a=b c=d] X-A:[1 2 ]]"},
	"an empty value": {fcgiRequest{params: []string{"HTTP_X_EMPTY", ""}}.String(), "header map[X-Empty:[]]"},
	"a value of four bytes": {fcgiRequest{params: []string{"HTTP_X_LONG", strings.Repeat("x", 300)}}.String(),
		"X-Long:[" +
			strings.Repeat("x", 300) + "]"},
	"a name of four bytes": {fcgiRequest{params: []string{"HTTP_" + strings.Repeat("A", 200), "x"}}.String(), "A" +
		strings.Repeat("a", 199) + ":[x]"},
	"no name behind HTTP_":    {fcgiRequest{params: []string{"HTTP_", "x"}}.String(), "header map[]\n"},
	"a proxy of the client's": {fcgiRequest{params: []string{"HTTP_PROXY", "x"}}.String(), "header map[Proxy:[x]]"},
	"pragma": {fcgiRequest{params: []string{"HTTP_PRAGMA", "no-cache"}}.String(),
		"header map[Cache-Control:[no-cache] Pragma:[no-cache]]"},
	"many values": {fcgiRequest{params: fcgiFields(20)}.String(), "X-0:[0] X-1:[1] X-10:[10]"},
	"expectation": {fcgiRequest{params: []string{"HTTP_EXPECT", "100-continue"}}.String(),
		"header map[Expect:[100-continue]]"},
	"coding of the client's": {fcgiRequest{params: []string{"HTTP_TRANSFER_ENCODING", "chunked"}}.String(),
		"header map[]\n"},
	"CONTENT_TYPE": {fcgiRequest{params: []string{"CONTENT_TYPE", "a/b"}}.String(),
		"header map[Content-Type:[a/b]]"},
	"CONTENT_TYPE, empty": {fcgiRequest{params: []string{"CONTENT_TYPE", ""}}.String(), "header map[]\n"},
	"both types": {fcgiRequest{params: []string{"CONTENT_TYPE", "a/b", "HTTP_CONTENT_TYPE", "c/d"}}.String(),
		"header map[Content-Type:[a/b]]"},
	"both types, other order": {fcgiRequest{params: []string{"HTTP_X", "1", "HTTP_CONTENT_TYPE", "c/d", "HTTP_Y", "2",
		"CONTENT_TYPE", "a/b"}}.String(), "header map[Content-Type:[a/b] X:[1] Y:[2]]"},
	"HTTP_CONTENT_TYPE": {fcgiRequest{params: []string{"CONTENT_TYPE", "", "HTTP_CONTENT_TYPE", "c/d"}}.String(),
		"header map[Content-Type:[c/d]]"},
	"HTTP_CONTENT_LENGTH": {fcgiRequest{params: []string{"HTTP_CONTENT_LENGTH", "5"}}.String(),
		"header map[Content-Length:[5]]\nlength 0"},
	"a record for each byte": {begins(1, true) + inRecords(paramsStream, 1, 1, nameValues(likeNginx...)) +
		rec(stdinStream, 1, ""), "SERVER_SOFTWARE:nginx/1.28.0"},
	"padding everywhere": {padded(beginRequest, 1, "\x00\x01\x01\x00\x00\x00\x00\x00", 255) +
		padded(paramsStream, 1, nameValues(likeNginx...), 255) + padded(paramsStream, 1, "", 255) +
		padded(stdinStream, 1, "", 255), "REMOTE_USER:ann"},
	"the greatest id": {fcgiRequest{id: 65535}.String(), `GET "/" HTTP/1.1`},
	"65535 bytes in a record": {fcgiRequest{params: []string{"HTTP_X", strings.Repeat("x", 65000)}}.String(),
		"X:[xxx"},
	"more than a record holds": {fcgiRequest{params: []string{"HTTP_X", strings.Repeat("x", 70000)}}.String(),
		"X:[xxx"},

	"no method": {listed("SERVER_PROTOCOL", "HTTP/1.1", "REQUEST_URI", "/"),
		"400 Bad Request: REQUEST_METHOD missing or malformed"},
	"malformed method": {fcgiRequest{method: "GE T"}.String(),
		"400 Bad Request: REQUEST_METHOD missing or malformed"},
	"no protocol": {listed("REQUEST_METHOD", "GET", "REQUEST_URI", "/"),
		"400 Bad Request: SERVER_PROTOCOL missing or malformed"},
	"malformed protocol": {fcgiRequest{params: []string{"SERVER_PROTOCOL", "HTTP/1"}}.String(),
		"400 Bad Request: SERVER_PROTOCOL missing or malformed"},
	"malformed length": {fcgiRequest{params: []string{"CONTENT_LENGTH", "+5"}}.String(),
		"400 Bad Request: malformed CONTENT_LENGTH"},
	"negative length": {fcgiRequest{params: []string{"CONTENT_LENGTH", "-1"}}.String(),
		"400 Bad Request: malformed CONTENT_LENGTH"},
	"length out of range": {fcgiRequest{params: []string{"CONTENT_LENGTH", "9223372036854775808"}}.String(),
		"400 Bad Request: malformed CONTENT_LENGTH"},
	"malformed host": {fcgiRequest{params: []string{"HTTP_HOST", "a b"}}.String(),
		"400 Bad Request: malformed HTTP_HOST"},
	"malformed name": {fcgiRequest{params: []string{"HTTP_X Y", "z"}}.String(),
		"400 Bad Request: malformed HTTP_ variable"},
	"line end in a name": {fcgiRequest{params: []string{"HTTP_X\r\nY", "z"}}.String(),
		"400 Bad Request: malformed HTTP_ variable"},
	"line end in a value": {fcgiRequest{params: []string{"HTTP_X", "y\r\nZ: a"}}.String(),
		"400 Bad Request: malformed HTTP_ variable"},
	"NUL in a known field": {fcgiRequest{params: []string{"HTTP_COOKIE", "\x00"}}.String(),
		"400 Bad Request: malformed HTTP_ variable"},
	"malformed target":            {fcgiRequest{uri: "/%zz"}.String(), "400 Bad Request: malformed request target"},
	"target of no kind":           {fcgiRequest{uri: "x"}.String(), "400 Bad Request: malformed request target"},
	"space in the target's query": {fcgiRequest{uri: "/?a b"}.String(), "400 Bad Request: malformed request target"},
	"line end in the query":       {fcgiRequest{uri: "/?a\r\nb"}.String(), "400 Bad Request: malformed request target"},
	"a list that lies": {begins(1, true) + rec(paramsStream, 1, "\x01\x7fAb") + rec(paramsStream, 1, "") +
		rec(stdinStream, 1, ""), "400 Bad Request: malformed parameters"},
	"a length cut off": {begins(1, true) + rec(paramsStream, 1, nameValues("A", "b")+"\x01\xff\xff") +
		rec(paramsStream, 1, "") + rec(stdinStream, 1, ""), "400 Bad Request: malformed parameters"},
	"an empty list": {begins(1, true) + rec(paramsStream, 1, "") + rec(stdinStream, 1, ""),
		"400 Bad Request: REQUEST_METHOD missing"},
	"too many fields": {fcgiRequest{params: fcgiFields(1001)}.String(), "400 Bad Request: too many parameters"},
}

// located returns a GET without REQUEST_URI.
func located(pairs ...string) string {
	return listed(append([]string{"REQUEST_METHOD", "GET", "SERVER_PROTOCOL", "HTTP/1.1"}, pairs...)...)
}

// fcgiFields returns n variables with different names.
func fcgiFields(n int) (pairs []string) {
	for i := range n {
		pairs = append(pairs, fmt.Sprint("HTTP_X_", i), fmt.Sprint(i))
	}
	return pairs
}

// Parameters become the Request. Malformed ones get an error response, and the connection is
// closed.
func TestFCGIParamsBecomeRequest(t *testing.T) {
	everyFCGIMode(t, handle(fcgiDump), func(s *fcgiSite) {
		for name, test := range fcgiRequests {
			s.Run(name, func(t *testing.T) {
				p := s.in(t).peer()
				defer p.Close()
				a := p.roundTrip(test.request)
				if !strings.Contains(a.body, test.want) {
					t.Errorf("got %s\nwant %s", a.body, test.want)
				}
				if refused := strings.HasPrefix(test.want, "400 "); refused != (a.code == 400) || refused &&
					a.header.Get("Content-Type") == "" {
					t.Errorf("status %d, %v", a.code, a.header)
				} else if refused {
					p.mustClose()
				} else if a := p.roundTrip(aGET("/next")); !strings.HasPrefix(a.body, `GET "/next"`) {
					t.Errorf("then %s", a.body)
				}
			})
		}
	})
}

// What a handler keeps of a request does not change, whatever the connection does later.
func TestFCGIKeptRequestsDoNotChange(t *testing.T) {
	var kept []*http.Request
	everyFCGIMode(t, handle(func(_ http.ResponseWriter, r *http.Request) { kept = append(kept, r) }),
		func(s *fcgiSite) {
			kept = nil
			p := s.peer()
			for i := range 20 {
				p.roundTrip(fcgiRequest{uri: fmt.Sprintf("/%d", i),
					params: []string{"HTTP_COOKIE", fmt.Sprint(i), "HTTP_X_OWN",
						fmt.Sprint(i), "REMOTE_USER", fmt.Sprint(i)}}.String())
			}
			for i, r := range kept {
				env := maps.Collect(fastcgi.Params(r.Context()))
				if n := fmt.Sprint(i); r.URL.Path != "/"+n || r.Header.Get("Cookie") != n ||
					r.Header.Get("X-Own") != n ||
					env["REMOTE_USER"] != n {
					s.Errorf("%d became %s %v %v", i, r.URL, r.Header, env)
				}
			}
		})
}
