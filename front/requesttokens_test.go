package front_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// token matches what the test puts into each head. Each has several, which are equal.
var token = regexp.MustCompile(`tk[0-9]+x`)

// oneToken returns the token in s, and reports an error if there are several or none.
func oneToken(t *testing.T, where, s string) string {
	t.Helper()
	all := token.FindAllString(s, -1)
	for _, other := range all {
		testkit.Equal(t, other, all[0], where, s)
	}
	if len(all) == 0 {
		t.Errorf("%s: no token: %q", where, s)
		return ""
	}
	return all[0]
}

// tokenUpstream responds with what it has received, in the way that the path's first element asks
// for.
func tokenUpstream(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen := fmt.Sprint(r.RequestURI, " ", r.Header, " ", string(body))
		oneToken(t, "an upstream", seen)
		how, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		w.Header().Set("X-Seen", r.Header.Get("X-Token"))
		switch how {
		case "hints":
			w.Header().Set("Link", "<"+r.URL.Path+">")
			w.WriteHeader(http.StatusEarlyHints)
		case "accel":
			w.Header().Set("X-Accel-Redirect", "/inner"+r.URL.Path)
		case "abort":
			panic(http.ErrAbortHandler)
		case "error":
			w.WriteHeader(http.StatusNotFound)
		case "trailer":
			w.Header().Set("Trailer", "X-End")
			defer func() { w.Header().Set("X-End", r.Header.Get("X-Token")) }()
		case "long":
			seen = strings.Repeat(seen+"\n", 1000)
		}
		_, _ = io.WriteString(w, seen)
	}
}

// tokenConfig has a location for each feature that could keep a part of a request.
func tokenConfig(t *testing.T, to, log string) conf.Config {
	const up = "proxy_pass http://up; add_header X-Late $http_x_token$uri always;"
	return parseConf(t, `log_format all "$request $uri $args $http_x_token"; proxy_cache_path DIR/cache keys_zone=one:1m;
		limit_req_zone k zone=slow:1m rate=1000r/s; upstream up { server `+to+" max_fails=0; keepalive 8; }",
		log+strings.ReplaceAll(`
		proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Set $http_x_token;
		location / { UP }
		location /inner/ { UP }
		location /error/ { UP proxy_intercept_errors on; error_page 404 = /inner$uri; }
		location /cached/ { UP proxy_cache one; proxy_cache_key $request_uri; proxy_cache_lock on; proxy_cache_valid any 0; }
		location /patient/ { UP proxy_ignore_client_abort on; limit_req zone=slow burst=1000; }
		location /mirror/ { UP mirror /inner/copy; }
		location /auth/ { UP auth_request /inner/ask; auth_request_set $seen $upstream_http_x_seen; add_header X-Asked $seen; }
		location /again/ { access_log off; proxy_pass http://again; }`, "UP", up), "again")
}

// sendTokens sends requests over one connection, several at once, and checks the responses.
func sendTokens(t *testing.T, address string, client, requests int) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	in := bufio.NewReader(nc)
	ways := []string{"plain", "hints", "plain", "accel", "error", "trailer", "long", "cached", "mirror", "plain",
		"auth", "again", "patient", "abort", "large", "body"}
	for i := 0; i < requests; i += 3 {
		var out strings.Builder
		var all [3]string
		for k := range all {
			way, token := ways[(i+k+client)%len(ways)], fmt.Sprintf("tk%dx", client*100_000+i+k)
			all[k] = token
			fields, body := fmt.Sprintf("X-Own-%d: %s\r\n", (i+k)%5, token), ""
			switch way {
			case "large":
				fields += "X-Large: " + strings.Repeat("-", 6000) + token + "\r\n"
			case "body":
				body = token
				fields += fmt.Sprintf("Content-Length: %d\r\n", len(body))
			}
			fmt.Fprintf(&out, "GET /%s/%s?a=%s HTTP/1.1\r\nHost: front.test\r\nX-Token: %s\r\n%s\r\n%s", way, token,
				token, token, fields, body)
		}
		if _, err := io.WriteString(nc, out.String()); err != nil {
			t.Error(err)
			return
		}
		for _, want := range all {
			if err := checkResponse(t, in, want); err != nil {
				t.Errorf("%s: %v", want, err)
				return
			}
		}
	}
}

// leaveEarly sends requests on connections that it resets at once.
func leaveEarly(t *testing.T, address string, client, requests int) {
	for i := range requests {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		way, token := []string{"plain", "long", "patient", "auth"}[i%4], fmt.Sprintf("tk%dx", client*100_000+i)
		_, _ = fmt.Fprintf(nc, "GET /%s/%s HTTP/1.1\r\nHost: front.test\r\nX-Token: %s\r\n\r\n", way, token, token)
		_ = nc.(*net.TCPConn).SetLinger(0)
		nc.Close()
	}
}

// checkResponse reads a response and those that announce it. Only one token may be in them.
func checkResponse(t *testing.T, in *bufio.Reader, want string) error {
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return fmt.Errorf("reading a head: %w", err)
		}
		if resp.StatusCode < http.StatusOK {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return fmt.Errorf("reading the body of %s: %w", resp.Status, err)
		}
		testkit.Equal(t, oneToken(t, "a response", fmt.Sprint(resp.Header, string(body), resp.Trailer)), want)
		return nil
	}
}

// unwrapper is what http.ResponseController looks for.
type unwrapper interface{ Unwrap() http.ResponseWriter }

// No part of a request reaches the upstream's view, the response or the log line of another one,
// although the memory of requests is reused. A handler that keeps its request finds it unchanged, even
// if it has passed it to the Handler once more, whose proxy knows of no other use.
func TestNoRequestHasPartsOfAnother(t *testing.T) {
	testkit.Long(t, "it sends many requests")
	const clients = 12
	requests := 48 // three of each kind, and a multiple of those that sendTokens sends at once
	if testkit.Slow() {
		requests = 300
	}
	log := filepath.Join(t.TempDir(), "log")
	var h *front.Handler
	var mu sync.Mutex
	var kept []*http.Request
	again := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		isClone := len(kept)%2 == 0
		kept = append(kept, r)
		mu.Unlock()
		inner := r.Clone(r.Context())
		if !isClone {
			inner = r.WithContext(r.Context())
			inner.URL = r.URL.JoinPath()
			for u, ok := w.(unwrapper); ok; u, ok = w.(unwrapper) {
				w = u.Unwrap()
			}
		}
		inner.URL.Path = strings.Replace(r.URL.Path, "/again/", "/plain/", 1)
		inner.RequestURI = inner.URL.RequestURI()
		h.ServeHTTP(w, inner)
	})
	h = newFront(t, tokenConfig(t, serve(t, tokenUpstream(t)), "access_log "+log+" all;"), front.Bind("again", again))
	address := serveOnTare(t, h)
	sendTokens(t, address, 0, requests)
	var done sync.WaitGroup
	done.Go(func() { leaveEarly(t, address, clients+1, requests) })
	for client := 1; client <= clients; client++ {
		done.Go(func() { sendTokens(t, address, client, requests) })
	}
	done.Wait()
	testkit.Must(t, h.Close())
	lines := testkit.Value(os.ReadFile(log))(t)
	all := strings.Split(strings.TrimSpace(string(lines)), "\n")
	testkit.Between(t, len(all), (clients+1)*requests, 2*(clients+2)*requests, "lines in the log")
	for _, line := range all {
		oneToken(t, "the log", line)
	}
	testkit.Equal(t, len(kept), (clients+1)*requests/16, "requests that were kept")
	for _, r := range kept {
		oneToken(t, "a request that was kept", fmt.Sprint(r.URL, r.Header))
		testkit.Is(t, r.Context().Err(), context.Canceled, r.URL)
	}
}
