package front_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Attacks that other servers were vulnerable to. The numbers are those of a list of such
// vulnerabilities. Those that are missing here have tests elsewhere:
//
//	12 switching protocols                  TestUnwantedUpgradesAreRejected
//	13 responses before the whole body      unread-bodies.txtar of front/corpus
//	26, 27 paths out of the root            TestNothingOutsideIsServed
//	24, 42 malformed upstream responses     TestMalformedResponsesGet502, and timeouts.txtar of
//	                                        front/corpus
//	29, 30 other clients' responses         TestCacheBehavesLikeNginx; TestFreshnessFollowsRFC9111,
//	                                        TestResponseToAuthorizedRequestIsNotStored and
//	                                        TestBrokenBodyIsNotStored of front/internal/cache
//	31-33, 36 records of FastCGI            TestKilledUpstreamIsNoticed, fuzzing of wire/fcgi
//	37, 38, 43 limits of one connection     the server's tests
//	39 superlinear work                     TestManyRangesGetMultipart of front/internal/files, and
//	                                        FuzzCleanPath
//	41 memory for clients' keys             TestTooLongLimitKeysAreNotLimited, and tests of
//	                                        front/internal/limit
//	46 memory that is reused                all tests, with -tags poison
//	47 repeated requests                    TestRestartsLoseNoRepeatableRequest, and sent-twice.txtar of
//	                                        front/corpus
//	51 passwords                            TestKnownHashesMatch, TestChangedPasswordFileIsRead,
//	                                        TestCorrectPasswordIsHashedOnce
const hostileConf = `
		client_max_body_size 100; client_body_timeout 200ms; send_timeout 200ms;
		server_name front.test; root DIR/site; error_page 404 @none;
		location / { proxy_pass http://UP; }
		location /set/ {
			proxy_pass http://UP; proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Path $uri;
			proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_http_version 1.1;
		}
		location ~ ^/capture/(.*)$ { proxy_pass http://UP/$1; }
		location /try/ { try_files /none /tried?u=$uri; }
		location /method { proxy_method $arg_m; proxy_pass http://UP; }
		location /host { proxy_set_header Host "$arg_h$uri"; proxy_pass http://UP; }
		location /to { return 302 http://other.test$uri; }
		location /to-self { return 302 $uri; }
		location /rewritten { rewrite "(?s)^/rewritten(.*)$" http://other.test/$1 redirect; }
		location /paged { error_page 404 http://other.test$uri; return 404; }
		location /field { add_header X-Path $uri always; return 200 field; }
		location /page { return 404; }
		location @none { proxy_pass http://UP; }
		location /logged { access_log DIR/bare bare; return 200 logged; }
		location /files/ { alias DIR/site/; error_page 404 =404 /nothing; }
		location /pictures { alias DIR/site/; error_page 404 =404 /nothing; }
		location = /nothing { return 404 nothing; }
		location /private/ { deny all; }
		location /inside/ { internal; alias DIR/site/; error_page 404 =404 /nothing; }
		location /send { proxy_pass http://UP; error_page 404 =404 /nothing; }
		location /trailer { proxy_hide_header X-Secret; proxy_pass http://UP; }
		location /say { return 200 said; }
		location /slow-pattern { if ($uri ~ "^/slow-pattern(?=/(a|aa)+$)") { return 200 x; } return 200 y; }
		location /password { auth_basic x; auth_basic_user_file DIR/passwords; alias DIR/site; }
		location /app/ { proxy_pass http://app; }
`

// hostile is what a client sends, and what must result.
type hostile struct {
	faults string // numbers in the list
	name   string
	// {R} is the rest of the request line and Host, {E} the end of a head after which the
	// connection closes.
	send   string
	status string // of the responses, in order
	arrive string // a part of what the upstream must receive; "" if it must receive nothing
	reply  string // a part of what the client must receive
}

// evil reports whether a head has injected data unescaped, as a request or a line: neither the
// upstream nor the client may receive it.
func evil(head string) bool {
	for line := range strings.SplitSeq(head, "\r\n") {
		low := strings.ToLower(line)
		if strings.HasPrefix(low, "x-path: /set/ evil:") || strings.HasPrefix(low, "x-path: /field evil:") {
			continue // the path, with spaces where it has a line end
		}
		if strings.HasPrefix(low, "evil") || strings.Contains(low, " /evil") || strings.Contains(low, " evil") {
			return true
		}
	}
	return strings.Contains(strings.ReplaceAll(head, "\r\n", ""), "\n")
}

func framingCases() []hostile {
	const smuggled = "GET /evil HTTP/1.1\r\nHost: front.test\r\n\r\n"
	return []hostile{
		{"1", "two lengths", "POST /x {R}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n{E}0\r\n\r\n", "200|400",
			"POST /x|", ""},
		{"2", "a coding that looks like chunked", "POST /x {R}Transfer-Encoding: xchunked\r\n{E}0\r\n\r\n" + smuggled,
			"501|400", "", ""},
		{"2", "chunked twice", "POST /x {R}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n{E}0\r\n\r\n" +
			smuggled, "501|400", "", ""},
		{"2", "chunked, folded", "POST /x {R}Transfer-Encoding:\r\n chunked\r\n{E}0\r\n\r\n", "200|400", "POST /x|", ""},
		{"3", "chunked in HTTP/1.0",
			"POST /x HTTP/1.0\r\nHost: front.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, "",
			"POST /x|", ""},
		{"4", "a length with a sign", "POST /x {R}Content-Length: +5\r\n{E}abcde", "400", "", ""},
		{"4", "a length in hex", "POST /x {R}Content-Length: 0x5\r\n{E}abcde", "400", "", ""},
		{"4", "a list of lengths", "POST /x {R}Content-Length: 5, 5\r\n{E}abcde", "400", "", ""},
		{"4", "a length that does not fit", "POST /x {R}Content-Length: 18446744073709551621\r\n{E}abcde", "400", "", ""},
		{"5", "a chunk's size that does not fit",
			"POST /x {R}Transfer-Encoding: chunked\r\n{E}10000000000000005\r\nabcde\r\n0\r\n\r\n", "400", "", ""},
		{"6", "junk after a chunk", "POST /x {R}Transfer-Encoding: chunked\r\n{E}1\r\nabc0\r\n\r\n" + smuggled, "400", "", ""},
		{"7, 8", "a space before the colon", "GET /x {R}X-A : b\r\n{E}", "400", "", ""},
		{"8", "no name", "GET /x {R}: b\r\n{E}", "400", "", ""},
		{"10", "a trailer", "POST /x {R}Transfer-Encoding: chunked\r\nTrailer: evil\r\n{E}1\r\na\r\n0\r\nEvil: 1\r\nX-Real-IP: 6.6.6.6\r\n\r\n", "200", "POST /x HTTP/1.1|Content-Length: 1|", ""},
		{"11", "an unread body", "POST /say HTTP/1.1\r\nHost: front.test\r\nContent-Length: 42\r\n\r\n" + smuggled +
			"  GET /x {R}{E}", "200 200", "GET /x|", "said"},
		{"11", "a body that is too long", "POST /x HTTP/1.1\r\nHost: front.test\r\nContent-Length: 101\r\n\r\n" +
			smuggled + strings.Repeat(" ", 101-len(smuggled)), "413", "", ""},
		{"13", "a body that was not waited for", "POST /x HTTP/1.1\r\nHost: front.test\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabcGET /y {R}{E}", "100 200 200", "GET /y|", ""},
		{"14", "CONNECT", "CONNECT other.test:80 HTTP/1.1\r\nHost: other.test:80\r\n\r\n" + smuggled, "", "", ""},
		{"14", "CONNECT without a host", "CONNECT other.test:80 HTTP/1.1\r\n\r\n" + smuggled, "400|405", "", ""},
		{"16", "h2c", "GET /set/x {R}Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\r\n", "200", "GET /set/x|", ""},
		{"17", "two hosts", "GET /x {R}Host: evil\r\n{E}", "400", "", ""},
		{"17", "an empty host", "GET /x HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", "400", "", ""},
		{"17", "a list of hosts", "GET /x HTTP/1.1\r\nHost: front.test, evil\r\nConnection: close\r\n\r\n", "400", "", ""},
		{"17", "a user in the host", "GET /x HTTP/1.1\r\nHost: front.test@evil\r\nConnection: close\r\n\r\n", "400", "", ""},
		{"17", "brackets", "GET /x HTTP/1.1\r\nHost: [::1]evil\r\nConnection: close\r\n\r\n", "400", "", ""},
		{"17", "another host in the target", "GET http://other.test/x {R}{E}", "200", "GET /x HTTP/1.1|", ""},
		{"17", "a fragment", "GET /x#/../private/y {R}{E}", "200", "GET /x HTTP/1.1|", ""},
		{"17, 26", "a scheme without a host", "GET evil:/x {R}{E}", "400", "", ""},
		{"22", "an odd query", "GET /x?a;b=%zz&%00=%26 {R}{E}", "200", "GET /x?a;b=%zz&%00=%26 HTTP/1.1|", ""},
	}
}

func injectionCases() []hostile {
	return []hostile{
		{"18", "a line in a redirect", "GET /to%0d%0aEvil:x {R}{E}", "302", "", "Location: http://other.test/to%0D%0AEvil:x"},
		{"18", "a line in a redirect to a path", "GET /to-self%0aEvil:x {R}{E}", "302", "", "/to-self%0AEvil:x"},
		{"18", "a line in a rewritten redirect", "GET /rewritten%0d%0aEvil:x {R}{E}", "302", "",
			"Location: http://other.test/%0D%0AEvil:x"},
		{"18", "a line in an error page's redirect", "GET /paged%0d%0aEvil:x {R}{E}", "302", "",
			"Location: http://other.test/paged%0D%0AEvil:x"},
		{"18", "a line in a field", "GET /field%0d%0aEvil:x {R}{E}", "200", "", "field"},
		{"18", "a line in a field for the upstream", "GET /set/%0d%0aEvil:x {R}{E}", "200",
			"GET /set/%0d%0aEvil:x HTTP/1.1|", ""},
		{"18", "a line in the target", "GET /try/%0d%0aEvil:%20x {R}{E}", "502", "", ""},
		{"18", "a space in the target", "GET /capture/%20evil {R}{E}", "200", "GET /%20evil HTTP/1.1|", "ok"},
		{"18", "a target in the method", "GET /method?m=PUT%20/evil {R}{E}", "502", "", ""},
		{"18", "a line in the host", "GET /host%0d%0aEvil:x?h=b {R}{E}", "502", "", ""},
		{"18, 26", "NUL", "GET /x%00.html {R}{E}", "400", "", ""},
		{"19, 20, 21", "what the upstream trusts", "GET /set/x {R}X-Real-IP: 6.6.6.6\r\nX_Real_IP: 6.6.6.6\r\nX.Real.IP: 6.6.6.6\r\nConnection: X-Real-IP, X-Path, Host, close\r\nX-Path: /evil\r\n\r\n", "200",
			"GET /set/x HTTP/1.1|Host: front.test|X-Path: /set/x|X-Real-Ip: 127.0.0.1|", ""},
		{"10", "a trailer that is hidden", "GET /trailer {R}{E}", "200", "GET /trailer|", "ok"},
	}
}

func pathCases() []hostile {
	cases := []hostile{
		{"26", "internal", "GET /inside/a.html {R}{E}", "404", "", "nothing"},
		{"26", "sent to what is internal", "GET /send?/inside/a.html {R}{E}", "200", "GET /send|", "a file"},
		{"26, 27", "sent out of the root", "GET /send?/inside/..%2f..%2fsecret {R}{E}", "404", "GET /send|", "nothing"},
		{"27", "beside an alias", "GET /pictures../secret {R}{E}", "404", "", "nothing"},
		{"27", "a stream", "GET /files/a.html::$DATA {R}{E}", "404", "", "nothing"},
		{"28", "a pattern that takes for ever", "GET /slow-pattern/" + strings.Repeat("a", 2000) + "! {R}{E}", "500",
			"", ""},
		{"39", "many segments", "GET " + strings.Repeat("/a/..", 1000) + "/say {R}{E}", "200", "", "said"},
		{"45", "a handler that panics", "GET /app/panic {R}{E}", "", "", ""},
		{"45", "and the next one", "GET /app/x {R}{E}", "200", "", "app"},
	}
	for _, path := range []string{"/private/a", "//private/a", "/./private/a", "/x/../private/a", "/%70rivate/a",
		"/private%2fa", "/x%2f..%2fprivate/a", "/private/./a", "/private//a", "/private/%2e/a"} {
		cases = append(cases, hostile{"26", path, "GET " + path + " {R}{E}", "403", "", ""})
	}
	return cases
}

// hostileUpstream records what it receives, and responds as the path requires.
type hostileUpstream struct {
	mu   sync.Mutex
	seen bytes.Buffer
}

func (u *hostileUpstream) take() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer u.seen.Reset()
	return u.seen.String()
}

func (u *hostileUpstream) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen.Write(p)
}

func (u *hostileUpstream) serve(nc net.Conn) {
	in := bufio.NewReader(io.TeeReader(nc, u))
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/send":
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nx-accel-redirect: %s\r\nContent-Length: 0\r\n\r\n", r.URL.RawQuery)
		case "/trailer":
			_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Secret\r\n\r\n2\r\nok\r\n0\r\nX-Secret: evil\r\nX-Accel-Redirect: /evil\r\n\r\n")
		default:
			_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	}
}

// hostileFront serves hostileConf at an address.
func hostileFront(t *testing.T, up string) (addr, dir string) {
	dir = t.TempDir()
	for name, text := range map[string]string{"site/a.html": "a file", "secret": "evil", "passwords": "me:{PLAIN}x"} {
		testkit.WriteFile(t, filepath.Join(dir, name), text)
	}
	h := confFront(t, `log_format bare escape=none "$uri";`,
		strings.NewReplacer("DIR", filepath.ToSlash(dir), "UP", up).Replace(hostileConf), handlers{
			"app": func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/app/panic" {
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, "app")
			}})
	return serve(t, h.ServeHTTP), dir
}

func TestHostileRequestsDoNoHarm(t *testing.T) {
	noLeaks(t)
	up := &hostileUpstream{}
	addr, dir := hostileFront(t, testkit.ServeTCP(t, up.serve))
	for _, cases := range [][]hostile{framingCases(), injectionCases(), pathCases()} {
		for _, c := range cases {
			t.Run(c.faults+" "+c.name, func(t *testing.T) { c.test(t, addr, up) })
		}
	}
	exchangeBytes(t, addr, "GET /logged%0aevil HTTP/1.1\r\nHost: front.test\r\nConnection: close\r\n\r\n")
	testkit.Equal(t, awaitLines(t, filepath.Join(dir, "bare"), 1), []string{"/logged\\x0Aevil"}, "25: the log")
}

func (c *hostile) test(t *testing.T, addr string, up *hostileUpstream) {
	send := strings.NewReplacer("{R}", "HTTP/1.1\r\nHost: front.test\r\n", "{E}",
		"Connection: close\r\n\r\n").Replace(c.send)
	output := exchangeBytes(t, addr, send)
	arrived := up.take()
	testkit.Equal(t, evil(arrived), false, "the upstream was sent", arrived)
	if evil(output) || strings.Contains(output, "evil\r\n") {
		t.Errorf("the client received %q", output)
	}
	if got := statuses(output); c.status != "" && !strings.Contains("|"+c.status+"|", "|"+got+"|") {
		t.Errorf("%s, want %s: %q", got, c.status, output)
	}
	lines := strings.ReplaceAll(arrived, "\r\n", "|")
	for want := range strings.SplitSeq(strings.TrimSuffix(c.arrive, "|"), "|") {
		if !strings.Contains(lines, want) && statuses(output) != "400" {
			t.Errorf("the upstream was sent %q, want %q", arrived, want)
		}
	}
	if c.arrive == "" && arrived != "" {
		t.Errorf("the upstream was sent %q", arrived)
	}
	testkit.Contains(t, output, c.reply, "the client received")
}

// exchangeBytes sends bytes, and returns all bytes until the connection ends.
func exchangeBytes(t *testing.T, addr, send string) string {
	t.Helper()
	nc := dial(t, "tcp", addr, "")
	defer nc.Close()
	go func() { _, _ = io.WriteString(nc, send) }() // the server may have closed the connection
	b, _ := io.ReadAll(nc)
	return string(b)
}

// statuses returns the statuses of responses.
func statuses(output string) string {
	var all []string
	for _, part := range strings.Split(output, "HTTP/1.")[1:] {
		all = append(all, part[2:5])
	}
	return strings.Join(all, " ")
}

// Attack 34, and other fields that an application may take for its own variables.
func TestClientCannotSetApplicationVariables(t *testing.T) {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go fcgi.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["Proxy"], r.Header["X-User"], r.Header["X-Trusted"], fcgi.ProcessEnv(r))
	}))
	a := serveConf(t, "", `fastcgi_param REQUEST_METHOD GET; fastcgi_param SERVER_PROTOCOL HTTP/1.1; fastcgi_param REQUEST_URI /;
		fastcgi_param REMOTE_USER me; fastcgi_param HTTP_X_TRUSTED yes; location / { fastcgi_pass `+l.Addr().String()+"; }")
	got := a.get("/", "Proxy", "http://evil", "X_User", "evil", "X.User", "evil", "X-Trusted", "evil", "Remote-User",
		"evil", "Connection", "X-Trusted").body
	if strings.Contains(strings.ReplaceAll(got, "HTTP_REMOTE_USER:evil", ""), "evil") ||
		!strings.Contains(got, "[yes]") || !strings.Contains(got, "REMOTE_USER:me") {
		t.Errorf("the application received %s", got)
	}
}

// Nothing outside of the directory of an alias or a root is served, whatever the path and its
// variables.
func TestNothingOutsideIsServed(t *testing.T) {
	top := site(t, "public/x.txt", "public-secret", "secret", "public/d/y.txt", "w/secret")
	h := newFront(t, parseConf(t, "", strings.ReplaceAll(`root PUBLIC;
		location /i { alias PUBLIC/; }
		location /j { alias PUBLIC; }
		location /k/ { alias PUBLIC/; }
		location /l/ { alias PUBLIC; }
		location /m/ { alias PUBLIC/$arg_d/; }
		location /r/ { root PUBLIC/$arg_d; }
		location /v/ { root $arg_d; }
		location ~ ^/u/(.*)$ { alias PUBLIC/$1; }
		location /t/ { try_files $arg_f =404; }
		location /w/ { rewrite ^ /$arg_p break; }`, "PUBLIC", top+"/public")))
	for _, target := range []string{
		"/i../secret", "/i..%2fsecret", "/i%2e%2e/secret", "/j../secret", "/j-secret", "/k/../secret",
		"/k/%2e%2e/secret", "/l-secret", "/l/..%2f..%2fsecret", "/m/secret?d=..", "/m/x?d=../..",
		"/r/x?d=/../../", "/r/secret?d=..",
		"/u/../secret", "/u/%2e%2e/secret", "/t/x?f=/../secret", "/t/x?f=../secret", "/w/x?p=../secret",
		"/w/x?p=../../w/secret", "/..\\secret", "/i/..%5csecret", "/%5c..%5csecret", "/x.txt%00", "/v/../secret",
	} {
		got := get(t, h, target)
		if got.status < 400 && !strings.HasPrefix(got.header.Get("Location"), "http") || strings.Contains(got.body, "secret") {
			t.Errorf("%s: %d %q %q", target, got.status, got.header.Get("Location"), got.body)
		}
	}
	for target, want := range map[string]string{
		"/i/x.txt": "public/x.txt", "/ix.txt": "public/x.txt", "/j/x.txt": "public/x.txt", "/k/x.txt": "public/x.txt",
		"/l/x.txt": "", "/m/y.txt?d=d": "public/d/y.txt", "/u/d/y.txt": "public/d/y.txt",
		"/t/?f=/x.txt": "public/x.txt", "/w/?p=x.txt": "public/x.txt",
	} {
		if got := get(t, h, target); want != "" && got.body != want || want == "" && got.status != 404 {
			t.Errorf("%s: %d %q", target, got.status, got.body)
		}
	}
}

// More trusted prefixes than the front keeps handlers for do not disturb the responses under way.
func TestManyTrustedPrefixes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("links can be refused on Linux only")
	}
	const clients, requests = 4, 100
	dir := site(t, "r1/x")
	h := newFront(t, parseConf(t, "", strings.ReplaceAll(`
		location / { alias SITE/r1/; disable_symlinks on from=$arg_from; }`, "SITE", dir)))
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for i := range requests {
				target := fmt.Sprintf("/x?from=/%d", (i+n)%50)
				get(t, h, target).is(t, http.StatusOK)
			}
		})
	}
	all.Wait()
}

// Programs can parse a listing whatever the names are. Package corpus compares it with nginx's.
func TestListingCanBeParsed(t *testing.T) {
	names := []string{"<&>", `"quote"`, `back\slash`, "new\nline", "\u00fc"}
	root := site(t, names...)
	testkit.Must(t, os.Symlink("nowhere", filepath.Join(root, "link")))
	a := serveConf(t, "", strings.ReplaceAll(`autoindex on; location /json/ { alias ROOT/; autoindex_format json; }
		location /html/ { alias ROOT/; }`, "ROOT", root))
	var list []struct {
		Name, Type string
		Size       *int
	}
	testkit.Must(t, json.Unmarshal([]byte(a.get("/json/").body), &list))
	testkit.Equal(t, len(list), len(names)+1, "entries")
	for _, e := range list {
		if isLink := e.Name == "link"; isLink != (e.Type == "other") || isLink != (e.Size == nil) ||
			!isLink && !slices.Contains(names, e.Name) {
			t.Errorf("%+v", e)
		}
	}
	if got := a.get("/html/").body; strings.Count(got, "<a href=") != len(names)+2 || strings.Contains(got, "<&>") {
		t.Errorf("%s", got)
	}
}
