package front_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// echoed is what an upstream has received.
type echoed struct {
	Method, URI, Host, Body string
	Header                  http.Header
}

// echo responds with what it received.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	// fields of the connection, which differ from nginx's
	for _, name := range []string{"Connection", "Content-Length"} {
		r.Header.Del(name)
	}
	_ = json.NewEncoder(w).Encode(echoed{r.Method, r.RequestURI, r.Host, string(body), r.Header})
}

// serve serves a handler, and returns its address.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	return serveTest(t, h, nil).Listener.Addr().String()
}

// proxyTo returns a location / that proxies to an address.
func proxyTo(p conf.Proxy) conf.Config { return oneHost(conf.Location{Path: "/", Proxy: &p}) }

// A client's Connection removes neither fields that are set nor those about clients; other fields
// that it names are removed.
func TestConnectionRemovesOnlyNamedFields(t *testing.T) {
	a := serveConf(t, "", "location / { proxy_pass http://"+serve(t, echo)+"; proxy_set_header X-User me; }")
	var e echoed
	got := a.get("/", "Connection", "x-user, X-Forwarded-For , X-Named, keep-alive", "X-User", "evil", "X_User",
		"evil", "X-Named", "1", "X-Forwarded-For", "1.2.3.4", "X.User", "evil", "Proxy-Authorization", "secret")
	testkit.Must(t, json.Unmarshal([]byte(got.body), &e))
	delete(e.Header, "User-Agent")
	testkit.Equal(t, fmt.Sprint(e.Header), "map[X-Forwarded-For:[1.2.3.4] X-User:[me]]")
}

func TestUnsendableRequestIsNoServersFailure(t *testing.T) {
	for bad, pass := range map[string]string{
		"/a%0ab": "proxy_pass http://up$uri;", "/?host=a/b": "proxy_pass http://up; proxy_set_header Host $arg_host;",
		"/?method=a/b": "proxy_pass http://up; proxy_method $arg_method;",
	} {
		a := serveConf(t, "upstream up { server "+serve(t, echo)+"; server "+serve(t, echo)+"; }", "location / { "+pass+" }")
		a.get(bad).is(t, 502)
		testkit.Equal(t, a.get("/ok").status, 200, "after an unsendable", bad)
	}
}

// A websocket over HTTP/2 (RFC 8441) is not passed on, if the server of the handler offers it: its
// method is not allowed, as any CONNECT.
func TestExtendedConnectIsNotPassedOn(t *testing.T) {
	to := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the upstream receives %s", r.Method) })
	front := confFront(t, "", upgrading+passTo(to), nil)
	r := httptest.NewRequest(http.MethodConnect, "/chat", http.NoBody)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	r.Header[":protocol"] = []string{"websocket"}
	responseTo(front, r).is(t, http.StatusMethodNotAllowed)
}

// Interim responses reach clients that support them, without hidden fields and fields of the final
// response.
func TestInterimResponsesAreForwarded(t *testing.T) {
	to := serveText(t, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nConnection: X-Named\r\nX-Named: 1\r\nLink: </a>\r\nX-Secret: 1\r\nServer: app\r\n\r\n"+
		"HTTP/1.1 102 Processing\r\nContent-Length: 5\r\n\r\nHTTP/1.1 199 New\r\nLocation: http://app/x\r\nX-A: b\r\n\r\nHTTP/1.1 200 OK\r\nX-B: c\r\nContent-Length: 2\r\n\r\nok")
	a := serveConf(t, "", "absolute_redirect off; location / { proxy_pass http://"+to+
		"; proxy_hide_header X-Secret; proxy_redirect http://app/ /; }")
	for proto, want := range map[string]string{
		"HTTP/1.1": "103 map[Link:[</a>]], 102 map[], 199 map[Location:[/x] X-A:[b]], 200 c",
		"HTTP/1.0": "200 c",
	} {
		br := bufio.NewReader(dial(t, "unix", a.socket, "GET / "+proto+"\r\nHost: x\r\nConnection: close\r\n\r\n"))
		got, resp := "", testkit.Value(http.ReadResponse(br, nil))(t)
		for ; resp.StatusCode < 200; resp = testkit.Value(http.ReadResponse(br, nil))(t) {
			got += fmt.Sprint(resp.StatusCode, " ", resp.Header, ", ")
		}
		testkit.Equal(t, got+fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("X-B")), want, proto)
	}
}

// A malformed response is an invalid header, or an error if the connection ends too soon, as in
// nginx.
func TestMalformedResponseIsInvalidHeader(t *testing.T) {
	ended := func(out string, end wire.End) string {
		b := wire.AppendStream(nil, wire.Stdout, 1, []byte(out))
		return string(wire.AppendEnd(wire.AppendStreamEnd(b, wire.Stdout, 1), 1, end))
	}
	open := func(out string) string { return string(wire.AppendStream(nil, wire.Stdout, 1, []byte(out))) }
	for _, test := range []struct {
		protocol string
		name     string
		sends    string
		want     string // for which the next server is tried
	}{
		{"proxy", "rubbish", "rubbish\r\n\r\n", "invalid_header"},
		{"proxy", "rubbish without a line end", "hello", "invalid_header"},
		{"proxy", "rubbish, and silence", "hello", "invalid_header"},
		{"proxy", "no colon", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "invalid_header"},
		{"proxy", "status", "HTTP/1.1 abc\r\n\r\n", "invalid_header"},
		{"proxy", "nothing", "", "error"},
		{"proxy", "half a word", "HTT", "error"},
		{"proxy", "half a head", "HTTP/1.1 200 OK\r\nX: y\r\n", "error"},
		{"fastcgi", "rubbish", "rubbish rubbish rubbish", "invalid_header"},
		{"fastcgi", "no colon", ended("no colon\r\n\r\n", wire.End{}), "invalid_header"},
		{"fastcgi", "status", ended("Status: abc\r\n\r\n", wire.End{}), "invalid_header"},
		{"fastcgi", "no output", ended("", wire.End{}), "invalid_header"},
		{"fastcgi", "half a head, and the end", ended("X: y\r\n", wire.End{}), "invalid_header"},
		{"fastcgi", "an exit code", ended("", wire.End{App: 1}), "invalid_header"},
		{"fastcgi", "overloaded", ended("", wire.End{Status: wire.Overloaded}), "invalid_header"},
		{"fastcgi", "unknown role", ended("", wire.End{Status: wire.UnknownRole}), "invalid_header"},
		{"fastcgi", "unknown status", ended("", wire.End{Status: 9}), "invalid_header"},
		{"fastcgi", "nothing", "", "error"},
		{"fastcgi", "half a head", open("X: y\r\n"), "error"},
		{"fastcgi", "half a record", "\x01\x06\x00", "error"},
	} {
		first := testkit.ServeTCP(t, func(nc net.Conn) {
			if test.protocol == "fastcgi" {
				_, _, _, _ = testkit.ReadFastCGI(nc)
			} else if readHead(nc) != nil {
				return
			}
			io.WriteString(nc, test.sends)
			if strings.Contains(test.name, "silence") {
				_, _ = io.Copy(io.Discard, nc)
			}
		})
		second, scheme := application(t, nil, ""), ""
		if test.protocol == "proxy" {
			second, scheme = serve(t, echo), "http://"
		}
		for _, next := range []string{"error", "invalid_header", "off", "timeout"} {
			location := "location / { P_next_upstream " + next + "; P_pass " + scheme + "up; }"
			a := serveConf(t, "upstream up { server "+first+" max_fails=0; server "+second+" backup; }",
				strings.ReplaceAll(location, "P_", test.protocol+"_"))
			want := 502
			if next == test.want {
				want = 200
			}
			testkit.Equal(t, a.get("/").status, want, test.protocol, test.name, "next upstream after", next)
		}
	}
}

// closedByPeer returns a channel that is closed when the peer closes the connection.
func closedByPeer(nc net.Conn) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(io.Discard, nc)
	}()
	return done
}

// variables adds the value of a text to responses.
func variables(text conf.Text) *conf.Settings {
	return &conf.Settings{Header: []conf.AddHeader{{Name: "X-Vars", Value: text, Always: true}}}
}

// Variables as targets: upstreams, bound handlers, addresses, and invalid ones.
func TestTargetMayHaveVariables(t *testing.T) {
	to := serve(t, echo)
	a := serveHandler(t, newFront(t, oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: "$arg_to"}}),
		front.Bind("app", http.HandlerFunc(shows))))
	for arg, want := range map[string]string{"app": "bound / app", "app/x/y": "bound /x/y app", "APP": "bound / APP"} {
		a.get("/?to="+arg).is(t, 200, want)
	}
	got := a.get("/?to=" + to + "/z?q")
	got.is(t, 200)
	testkit.Contains(t, got.body, `"URI":"/z?q","Host":"`+to)
	for _, bad := range []string{"", "127.0.0.1:0", "unix:relative", "127.0.0.1:99999", "127.0.0.1:", "a..b:x", ":80",
		"[::1", "/x", "?"} {
		a.get("/?to="+bad).is(t, 500)
	}
	a.get("/?to=a..b").is(t, 502) // no resolver is queried for such a name
	for i := range 300 {          // more than are kept
		a.get(fmt.Sprintf("/?to=127.0.%d.%d:1", i/250, i%250))
	}
	a.get("/?to="+to).is(t, 200)
}

// shows responds with the path and the host.
func shows(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "bound ", r.URL.Path, " ", r.Host) }

// Variables may have the scheme, with TLS or without.
func TestSchemeMayBeVariable(t *testing.T) {
	plain, secure := serve(t, echo), serveTLS(t, new(tls.Config), echo)
	a := serveHandler(t, newFront(t, oneHost(
		conf.Location{Path: "/", Proxy: &conf.Proxy{To: "$arg_to", Protocol: "scheme"},
			Settings: variables("$proxy_host $proxy_port")},
	), front.Bind("app", http.HandlerFunc(shows))))
	_, port, _ := strings.Cut(plain, ":")
	for to, want := range map[string]string{
		"http://" + plain + "/x":            `"URI":"/x"`,
		secure.URL + "/x":                   `"URI":"/x"`,
		"HTTPS" + secure.URL[len("https"):]: `"URI":"/?to=`,
		"https://app/x":                     "bound /x app",
	} {
		got := a.get("/?to=" + to)
		got.is(t, 200)
		testkit.Contains(t, got.body, want, to)
	}
	testkit.Equal(t, a.get("/?to=http://"+plain).header.Get("X-Vars"), plain+" "+port)
	for to, want := range map[string]int{"": 500, plain: 500, "ftp://" + plain: 500, "//" + plain: 500, "https://" +
		plain: 502, "http://" + secure.Listener.Addr().String(): 400} {
		a.get("/?to="+to).is(t, want)
	}
	rejects(t, oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: "http://a", Protocol: "scheme"}}), "use https or none")
}

// noLeaks fails if the test leaks goroutines.
func noLeaks(t *testing.T) {
	t.Cleanup(func() {
		ours := func() (found string) {
			b := make([]byte, 4<<20)
			for stack := range strings.SplitSeq(string(b[:runtime.Stack(b, true)]), "\n\n") {
				_, creator, _ := strings.Cut(stack, "created by ")
				if strings.Contains(creator, "client.(*pool)") {
					continue // it watches idle connections
				}
				for _, name := range []string{"tare/front.", "tare/front/internal/upstream.", "tare/front/internal/fetch.", "internal/client."} {
					if strings.Contains(creator, name) {
						found += stack + "\n\n"
					}
				}
			}
			return found
		}
		for late := time.Now().Add(maxWait); ours() != ""; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("goroutines stay:\n%s", ours())
			}
		}
	})
}
