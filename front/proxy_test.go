package front_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"sync"
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
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// proxyTo returns a location / that proxies to an address.
func proxyTo(p conf.Proxy) conf.Config { return oneHost(conf.Location{Path: "/", Proxy: &p}) }

// A client's Connection removes neither fields that are set nor those about clients; other fields
// that it names are removed.
func TestConnectionRemovesOnlyNamedFields(t *testing.T) {
	a := serveHandler(t, newFront(t,
		proxyTo(conf.Proxy{To: conf.Text(serve(t, echo)), Header: []conf.Field{{Name: "X-User", Value: "me"}}})))
	var e echoed
	got := a.get("/", "Connection", "x-user, X-Forwarded-For , X-Named, keep-alive", "X-User", "evil", "X_User",
		"evil", "X-Named", "1", "X-Forwarded-For", "1.2.3.4", "X.User", "evil", "Proxy-Authorization", "secret")
	testkit.Must(t, json.Unmarshal([]byte(got.body), &e))
	for _, name := range []string{"Accept-Encoding", "User-Agent"} {
		delete(e.Header, name)
	}
	testkit.Equal(t, fmt.Sprint(e.Header), "map[X-Forwarded-For:[1.2.3.4] X-User:[me]]")
}

func TestUnsendableRequestIsNoServersFailure(t *testing.T) {
	for name, pass := range map[string]string{
		"target": "proxy_pass http://up$uri;", "host": "proxy_pass http://up; proxy_set_header Host $arg_host;",
		"method": "proxy_pass http://up; proxy_method $arg_method;",
	} {
		a := serveConf(t, "upstream up { server "+serve(t, echo)+"; server "+serve(t, echo)+"; }", "location / { "+pass+" }")
		bad := map[string]string{"target": "/a%20b", "host": "/?host=a/b", "method": "/?method=a/b"}[name]
		a.get(bad).is(t, 502)
		testkit.Equal(t, a.get("/ok").status, 200, "after an unsendable", name)
	}
}

// A websocket over HTTP/2 (RFC 8441) is not passed on, if the server of the handler offers it: its
// method is not allowed, as any CONNECT.
func TestExtendedConnectIsNotPassedOn(t *testing.T) {
	to := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the upstream receives %s", r.Method) })
	front := newFront(t, proxyTo(upgrading(to)))
	r := httptest.NewRequest(http.MethodConnect, "/chat", http.NoBody)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	r.Header[":protocol"] = []string{"websocket"}
	responseTo(front, r).is(t, http.StatusMethodNotAllowed)
}

// hinted returns a context whose requests record interim responses.
func hinted(t testing.TB, hints *[]string) context.Context {
	return httptrace.WithClientTrace(t.Context(),
		&httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			*hints = append(*hints, fmt.Sprint(code, " ", h.Get("Link")))
			return nil
		}})
}

// Interim responses reach clients that support them, without hidden fields and fields of the final
// response.
func TestInterimResponsesAreForwarded(t *testing.T) {
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			io.WriteString(nc, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nConnection: X-Named\r\nX-Named: 1\r\nLink: </a>\r\nX-Secret: 1\r\nServer: app\r\n\r\n"+
				"HTTP/1.1 102 Processing\r\nContent-Length: 5\r\n\r\nHTTP/1.1 199 New\r\nLocation: http://app/x\r\nX-A: b\r\n\r\nHTTP/1.1 200 OK\r\nX-B: c\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	a := serveConf(t, "", "absolute_redirect off; location / { proxy_pass http://"+to+
		"; proxy_hide_header X-Secret; proxy_redirect http://app/ /; }")
	for proto, want := range map[string]string{
		"HTTP/1.1": "103 map[Link:[</a>]], 102 map[], 199 map[Location:[/x] X-A:[b]], 200 c",
		"HTTP/1.0": "200 c",
	} {
		nc := dial(t, "unix", a.socket, fmt.Sprintf("GET / %s\r\nHost: x\r\nConnection: close\r\n\r\n", proto))
		br := bufio.NewReader(nc)
		got := ""
		for {
			resp := testkit.Value(http.ReadResponse(br, nil))(t)
			if resp.StatusCode >= 200 {
				got += fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("X-B"))
				break
			}
			got += fmt.Sprint(resp.StatusCode, " ", resp.Header, ", ")
		}
		testkit.Equal(t, got, want, proto)
	}
}

// A malformed response is an invalid header, or an error if the connection ends too soon, as in
// nginx.
func TestMalformedResponseIsInvalidHeader(t *testing.T) {
	const (
		invalid = "invalid header"
		failed  = "error"
	)
	ended := func(out string, end wire.End) string {
		b := wire.AppendStream(nil, wire.Stdout, 1, []byte(out))
		return string(wire.AppendEnd(wire.AppendStreamEnd(b, wire.Stdout, 1), 1, end))
	}
	open := func(out string) string { return string(wire.AppendStream(nil, wire.Stdout, 1, []byte(out))) }
	for _, test := range []struct {
		protocol string
		name     string
		sends    string
		stays    bool // the connection stays open
		want     string
	}{
		{"", "rubbish", "rubbish\r\n\r\n", false, invalid},
		{"", "rubbish without a line end", "hello", false, invalid},
		{"", "rubbish, and silence", "hello", true, invalid},
		{"", "no colon", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", false, invalid},
		{"", "status", "HTTP/1.1 abc\r\n\r\n", false, invalid},
		{"", "nothing", "", false, failed},
		{"", "half a word", "HTT", false, failed},
		{"", "half a head", "HTTP/1.1 200 OK\r\nX: y\r\n", false, failed},
		{"fastcgi", "rubbish", "rubbish rubbish rubbish", false, invalid},
		{"fastcgi", "no colon", ended("no colon\r\n\r\n", wire.End{}), false, invalid},
		{"fastcgi", "status", ended("Status: abc\r\n\r\n", wire.End{}), false, invalid},
		{"fastcgi", "no output", ended("", wire.End{}), false, invalid},
		{"fastcgi", "half a head, and the end", ended("X: y\r\n", wire.End{}), false, invalid},
		{"fastcgi", "an exit code", ended("", wire.End{App: 1}), false, invalid},
		{"fastcgi", "overloaded", ended("", wire.End{Status: wire.Overloaded}), false, invalid},
		{"fastcgi", "unknown role", ended("", wire.End{Status: wire.UnknownRole}), false, invalid},
		{"fastcgi", "unknown status", ended("", wire.End{Status: 9}), false, invalid},
		{"fastcgi", "nothing", "", false, failed},
		{"fastcgi", "half a head", open("X: y\r\n"), false, failed},
		{"fastcgi", "half a record", "\x01\x06\x00", false, failed},
	} {
		first := testkit.ServeTCP(t, func(nc net.Conn) {
			if test.protocol == "fastcgi" {
				_, _, _, _ = testkit.ReadFastCGI(nc)
			} else if _, err := http.ReadRequest(bufio.NewReader(nc)); err != nil {
				return
			}
			io.WriteString(nc, test.sends)
			if test.stays {
				_, _ = io.Copy(io.Discard, nc)
			}
		})
		second := application(t, nil, "")
		if test.protocol == "" {
			second = serve(t, echo)
		}
		for next, name := range map[*conf.NextUpstream]string{{Error: true}: failed, {InvalidHeader: true}: invalid,
			{Off: true}: "off", {Timeout: true}: "timeout"} {
			c := proxyTo(conf.Proxy{To: "up", Protocol: test.protocol, Next: *next})
			c.Upstreams = []conf.Upstream{{Name: "up", Servers: []conf.Server{{Addr: first, MaxFails: -1},
				{Addr: second, Backup: true}}}}
			want := 502
			if name == test.want {
				want = 200
			}
			got := serveHandler(t, newFront(t, c)).get("/").status
			testkit.Equal(t, got, want, test.protocol, test.name, "next upstream after", name)
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

// A client's departure ends its upstream request, unless IgnoreAbort is set.
func TestClientsDepartureEndsUpstreamRequest(t *testing.T) {
	noLeaks(t)
	for ignore, wait := range map[bool]time.Duration{false: maxWait, true: 300 * time.Millisecond} {
		arrived, left := make(chan bool, 1), make(chan bool, 1)
		to := serve(t, func(w http.ResponseWriter, r *http.Request) {
			arrived <- true
			select {
			case <-r.Context().Done():
				left <- true
			case <-time.After(wait):
				left <- false
			}
		})
		a := serveHandler(t, newFront(t, proxyTo(conf.Proxy{To: conf.Text(to), IgnoreAbort: ignore})))
		nc := dial(t, "unix", a.socket, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		<-arrived
		nc.Close()
		testkit.Equal(t, <-left, !ignore, "the upstream's request ends early")
	}
}

// A client's body that breaks off or times out results in an error, never in the response to
// another request.
func TestBrokenBodyIsAnError(t *testing.T) {
	noLeaks(t)
	var seen sync.Map
	to := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		seen.Store(r.URL.Path, err == nil)
	})
	for _, stream := range []bool{false, true} {
		c := proxyTo(conf.Proxy{To: conf.Text(to), StreamRequest: stream})
		c.Hosts[0].Locations[0].Settings = &conf.Settings{BodyTimeout: 100 * time.Millisecond}
		a := serveHandler(t, newFront(t, c))
		for path, text := range map[string]string{
			"late":      "POST /late HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n012",
			"late-long": "POST /late-long HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n012",
			"chunks":    "POST /chunks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n01234567\r\n",
		} {
			nc := dial(t, "unix", a.socket, text)
			_ = nc.SetReadDeadline(time.Now().Add(maxWait))
			resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err == nil && resp.StatusCode < 400 {
				t.Errorf("stream %v, %s: %v", stream, path, resp.Status)
			}
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
				t.Errorf("stream %v, %s: no response", stream, path)
			}
			nc.Close()
			if whole, ok := seen.Load("/" + path); ok && whole.(bool) {
				t.Errorf("stream %v, %s: the upstream took it for whole", stream, path)
			}
		}
	}
}

// variables adds the value of a text to responses.
func variables(text conf.Text) *conf.Settings {
	return &conf.Settings{Header: []conf.AddHeader{{Name: "X-Vars", Value: text, Always: true}}}
}

// Variables as targets: upstreams, bound handlers, addresses, and invalid ones.
func TestTargetMayHaveVariables(t *testing.T) {
	to := serve(t, echo)
	c := oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: "$arg_to"}})
	h := newFront(t, c, front.Bind("app",
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "bound ", r.URL.Path, " ", r.Host)
		})))
	a := serveHandler(t, h)
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

// Variables may have the scheme, with TLS or without.
func TestSchemeMayBeVariable(t *testing.T) {
	plain, secure := serve(t, echo), httptest.NewTLSServer(http.HandlerFunc(echo))
	t.Cleanup(secure.Close)
	a := serveHandler(t, newFront(t, oneHost(
		conf.Location{Path: "/", Proxy: &conf.Proxy{To: "$arg_to", Protocol: "scheme"},
			Settings: variables("$proxy_host $proxy_port")},
	), front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "bound ", r.URL.Path, " ", r.Host)
	}))))
	_, port, _ := strings.Cut(plain, ":")
	for to, want := range map[string]string{
		"http://" + plain + "/x":            `"URI":"/x"`,
		secure.URL + "/x":                   `"URI":"/x"`,
		"HTTPS" + secure.URL[len("https"):]: `"URI":"/?to=`,
		"https://app/x":                     "bound /x app",
	} {
		if got := a.get("/?to=" + to); got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s", to, got.status, got.body)
		}
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
