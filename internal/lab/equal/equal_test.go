package equal_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/testkit"
)

func fetch(t *testing.T, h http.HandlerFunc) *equal.Response {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	a, err := equal.Fetch(context.Background(), contender.Place{Protocol: contender.HTTP,
		Address: s.Listener.Addr().String()},
		equal.Request{Method: "GET", Path: "/x", Host: "a.b"})
	testkit.Must(t, err)
	return a
}

func control(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "gophr")
	fmt.Fprintf(w, "%s %s", r.Host, r.URL)
}

func TestFetchReturnsTheResponse(t *testing.T) {
	a := fetch(t, control)
	want := "HTTP/1.1 200 OK\r\nServer: gophr\r\nDate: Sat, 21 Nov 2026 00:00:00 GMT\r\nContent-Length: 6\r\nContent-Type: text/plain; charset=utf-8\r\n\r\na.b /x"
	if a.Status != 200 || string(a.Body) != "a.b /x" || !a.KeepAlive || a.Bytes != len(want) {
		t.Errorf("%+v, want %d bytes", a, len(want))
	}
	if a := fetch(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
	}); a.KeepAlive {
		t.Error("a closed connection is reported as kept")
	}
}

// The request has the version, fields and connection handling of the load.
func TestFetchSendsTheRequestOfTheLoad(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flushed" { // without a length an HTTP/1.0 response ends with the connection
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, r.Proto, " ", r.Header.Get("X-A"), " ", r.Close)
	}))
	defer server.Close()
	for _, test := range []struct {
		request equal.Request
		body    string
		kept    bool
	}{
		{equal.Request{Path: "/", Header: []string{"X-A: b"}}, "HTTP/1.1 b false", true},
		{equal.Request{Path: "/", PerConnection: 2}, "HTTP/1.1  false", true},
		{equal.Request{Path: "/", PerConnection: 1}, "HTTP/1.1  true", false},
		{equal.Request{Path: "/", Version: "1.0"}, "HTTP/1.0  true", false},
		{equal.Request{Path: "/", Version: "1.0", PerConnection: 1}, "HTTP/1.0  true", false},
		{equal.Request{Path: "/", Version: "1.0", Header: []string{"Connection: Keep-Alive"}}, "HTTP/1.0  false", true},
		{equal.Request{Path: "/flushed", Version: "1.0", Header: []string{"Connection: Keep-Alive"}},
			"HTTP/1.0  false", false},
	} {
		test.request.Method, test.request.Host = "GET", "a.b"
		a, err := equal.Fetch(context.Background(), contender.Place{Protocol: contender.HTTP,
			Address: server.Listener.Addr().String()}, test.request)
		if err != nil || string(a.Body) != test.body || a.KeepAlive != test.kept {
			t.Errorf("%+v: %+v, %v, want %q, kept: %v", test.request, a, err, test.body, test.kept)
		}
	}
}

// Each kind of difference is found and named.
func TestCompareNamesDifferences(t *testing.T) {
	for want, h := range map[string]http.HandlerFunc{
		"": control,
		"status": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", "gophr")
			w.WriteHeader(404)
			io.WriteString(w, "a.b /x")
		},
		"body": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", "gophr")
			io.WriteString(w, "a.b /y")
		},
		"body,body length,field Content-Length": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", "gophr")
			io.WriteString(w, "a.b /")
		},
		"field Server": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", "nginx")
			io.WriteString(w, "a.b /x")
		},
		"field X":    func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X", "y"); control(w, r) },
		"field Date": func(w http.ResponseWriter, r *http.Request) { w.Header()["Date"] = nil; control(w, r) },
		"field Content-Length,field Transfer-Encoding": func(w http.ResponseWriter, r *http.Request) {
			control(w, r)
			w.(http.Flusher).Flush()
		},
		"field Connection,keep-alive": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			control(w, r)
		},
	} {
		t.Run(want, func(t *testing.T) {
			var names []string
			for _, d := range equal.Compare(fetch(t, control), fetch(t, h)) {
				if d.What != "bytes" { // follows from the others
					names = append(names, d.What)
				}
			}
			testkit.Equal(t, strings.Join(names, ","), want)
		})
	}
}

// Differences after equal beginnings of bodies are found.
func TestCompareReadsTheWholeBody(t *testing.T) {
	long := func(end string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("a", 100)+end) }
	}
	all := equal.Compare(fetch(t, long("x")), fetch(t, long("y")))
	if len(all) != 1 || all[0].String() != "body: other bytes after the first 60, where the control has others" {
		t.Errorf("got %v", all)
	}
}

func TestFrontWithoutApplicationIsNotReady(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(502) }))
	c := &contender.Contender{Spec: &contender.Spec{Protocol: contender.HTTP}}
	ready, at := equal.Ready(c, equal.Request{Method: "GET", Path: "/", Host: "a"}), s.Listener.Addr().String()
	if err := ready(t.Context(), at); err == nil ||
		!strings.Contains(err.Error(), "the application behind it does not") {
		t.Errorf("a front without its application is ready: %v", err)
	}
	s.Close()
	testkit.Error(t, ready(t.Context(), at), "", "a closed port")
}

// startTLS starts a server with net/http's HTTP/1.1 and HTTP/2.
func startTLS(t *testing.T) contender.Place {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.Host, r.Header.Get("X-Kind"))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return contender.Place{Protocol: contender.HTTP, Address: server.Listener.Addr().String(), TLS: true}
}

func TestResponsesOverTLS(t *testing.T) {
	at := startTLS(t)
	for _, test := range []struct {
		name      string
		request   equal.Request
		body      string
		tls       string // a part of the description
		keepAlive bool
	}{
		{"HTTP/1.1", equal.Request{}, "HTTP/1.1 a.test plain", `X25519, protocol "http/1.1"`, true},
		{"HTTP/2", equal.Request{Version: equal.HTTP2}, "HTTP/2.0 a.test plain", `X25519, protocol "h2"`, true},
		{"one request", equal.Request{PerConnection: 1}, "HTTP/1.1 a.test plain", `protocol "http/1.1"`, false},
		{"one request by HTTP/2", equal.Request{Version: equal.HTTP2, PerConnection: 1}, "HTTP/2.0 a.test plain",
			`protocol "h2"`, false},
		{"resumed", equal.Request{PerConnection: 1, Resume: true}, "HTTP/1.1 a.test plain", ", resumed", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.request
			r.Method, r.Path, r.Host, r.Header = "GET", "/", "a.test", []string{"X-Kind: plain"}
			got := testkit.Value(equal.Fetch(t.Context(), at, r))(t)
			if string(got.Body) != test.body || got.KeepAlive != test.keepAlive {
				t.Errorf("body %q, kept %v", got.Body, got.KeepAlive)
			}
			if !strings.HasPrefix(got.TLS, "TLS 1.3, TLS_") || !strings.Contains(got.TLS, test.tls) {
				t.Errorf("TLS %q, want %q in it", got.TLS, test.tls)
			}
			testkit.Equal(t, strings.Contains(got.TLS, ", resumed"), r.Resume, got.TLS, "is resumed")
			if hasBytes := got.Bytes > 0; hasBytes == (r.Version == equal.HTTP2) {
				t.Errorf("%d bytes", got.Bytes)
			}
		})
	}
}

func TestDifferencesOfTLSAreFound(t *testing.T) {
	at, r := startTLS(t), equal.Request{Method: "GET", Path: "/", Host: "a.test"}
	one := testkit.Value(equal.Fetch(t.Context(), at, r))(t)
	r.Version = equal.HTTP2
	two := testkit.Value(equal.Fetch(t.Context(), at, r))(t)
	two.Body, two.Bytes = one.Body, one.Bytes
	all := equal.Compare(one, two)
	if len(all) != 1 || all[0].What != "TLS" {
		t.Errorf("got %v, want a difference of TLS", all)
	}
}

func TestHTTP2WithoutTLSIsAnError(t *testing.T) {
	at := startTLS(t)
	at.TLS = false
	r := equal.Request{Method: "GET", Path: "/", Host: "a.test", Version: equal.HTTP2}
	_, err := equal.Fetch(t.Context(), at, r)
	if err == nil || err.Error() != "HTTP/2 is compared over TLS only" {
		t.Errorf("got %v", err)
	}
}
