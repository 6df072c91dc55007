package front_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// startHTTP2 starts a server that supports HTTP/2, with TLS or by prior knowledge. It responds with
// what it has received, and with a trailer field.
func startHTTP2(t *testing.T, usesTLS bool) string {
	t.Helper()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Trailer", "X-End")
		fmt.Fprint(w, r.Proto, " ", r.Method, " ", r.RequestURI, " ", r.Host, " ", r.Header["X-A"], r.Header["Te"],
			r.Header["User-Agent"], r.Header["Accept-Encoding"], len(body))
		w.Header().Set("X-End", "yes")
	})
	if !usesTLS {
		return unencryptedHTTP2(t, h).Listener.Addr().String()
	}
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestProxyHTTPVersion2IsUsed(t *testing.T) {
	plain, secure := startHTTP2(t, false), startHTTP2(t, true)
	a := serveConf(t, fmt.Sprintf("upstream two { server 127.0.0.1:1; server %s; }", plain), fmt.Sprintf(
		`proxy_http_version 2; proxy_set_header X-A a; proxy_set_header Host app.example; client_max_body_size 10m;
		location /plain { proxy_pass http://%s; } location /secure { proxy_pass https://%s; }
		location /two { proxy_pass http://two; } location /dead { proxy_pass http://127.0.0.1:1; }
		location /stream { proxy_request_buffering off; proxy_buffering off; proxy_pass http://%s; }`, plain, secure, plain))
	for _, path := range []string{"/plain", "/secure", "/two", "/stream"} {
		for _, n := range []int{0, 10, 1 << 20} {
			method := "GET"
			var body io.Reader
			if n > 0 {
				method, body = "POST", strings.NewReader(strings.Repeat("x", n))
			}
			got := a.do(method, path+"?a=b", body, "User-Agent", "", "Te", "trailers", "Connection", "x-b", "X-B", "b")
			want := fmt.Sprintf("HTTP/2.0 %s %s?a=b app.example [a] [trailers] [] [] %d", method, path, n)
			if got.status != 200 || got.body != want {
				t.Errorf("%d %q, want %q", got.status, got.body, want)
			}
		}
	}
	if got := a.get("/dead"); got.status != 502 {
		t.Errorf("a dead server: status %d", got.status)
	}
}

// A stream that the server resets is an invalid header, and no error, as in nginx.
func TestResetStreamIsInvalidHeader(t *testing.T) {
	resets := unencryptedHTTP2(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	a := serveConf(t, fmt.Sprintf("upstream two { server %s max_fails=0; server %s backup; }",
		resets.Listener.Addr(), startHTTP2(t, false)), `
		location /default { grpc_pass two; }
		location /error { grpc_next_upstream error timeout; grpc_pass two; }
		location /invalid { grpc_next_upstream invalid_header; grpc_pass two; }`)
	for path, want := range map[string]int{"/default": 502, "/error": 502, "/invalid": 200} {
		if got := a.get(path); got.status != want {
			t.Errorf("%s: %d, want %d", path, got.status, want)
		}
	}
}

// The value of variables in grpc_pass may have a scheme.
func TestGRPCSchemeMayComeFromVariables(t *testing.T) {
	plain, secure := startHTTP2(t, false), startHTTP2(t, true)
	a := serveConf(t, fmt.Sprintf("upstream two { server %s; }", plain), `location / { grpc_pass $arg_to; }
		location /scheme { grpc_pass ${arg_s}two; }`)
	for query, want := range map[string]int{
		"/?to=" + plain: 200, "/?to=grpc://" + plain: 200, "/?to=GRPC://" + plain: 200, "/?to=grpcs://" + secure: 200,
		"/?to=two": 200, "/?to=grpc://two": 200, "/?to=http://" + plain: 500, "/?to=": 500, "/?to=grpcs://" + plain: 502,
		"/scheme?s=grpc://": 200, "/scheme": 200, "/scheme?s=grpcs://": 502,
	} {
		if got := a.get(query); got.status != want {
			t.Errorf("%s: %d, want %d", query, got.status, want)
		}
	}
}
