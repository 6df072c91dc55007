package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Many web servers send requests concurrently.
func TestFCGIManyPeersAreServed(t *testing.T) {
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.URL.Path, b)
	}), func(s *fcgiSite) {
		var wg sync.WaitGroup
		for i := range 16 {
			p := s.peer()
			wg.Go(func() {
				for j := range 30 {
					want := fmt.Sprintf("/%d-%d", i, j)
					body := strings.Repeat(want, j*50)
					sent := p.send(fcgiRequest{id: 1 + i, uri: want, body: body, length: j%2 == 0}.String())
					a, err := p.tryReadResponse()
					if err != nil || a.id != 1+i || a.body != want+" "+body {
						s.Errorf("%s: %v, %v", want, a, err)
						return
					}
					<-sent
				}
			})
		}
		wg.Wait()
	})
}

// The standard library's handlers work as they do over HTTP.
func TestFCGIServesFiles(t *testing.T) {
	dir := t.TempDir()
	content := strings.Repeat("0123456789abcdef", 50<<10)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	everyFCGIMode(t, func() *http.Server { return &http.Server{Handler: http.FileServer(http.Dir(dir))} },
		func(s *fcgiSite) {
			p := s.peer()
			whole := p.roundTrip(aGET("/f"))
			if whole.body != content || whole.header.Get("Content-Length") != fmt.Sprint(len(content)) {
				s.Errorf("got %d bytes, want %d; %v", len(whole.body), len(content), whole.header)
			}
			if a := p.roundTrip(fcgiRequest{uri: "/f", params: []string{"HTTP_RANGE",
				"bytes=100000-600000"}}.String()); a.code != 206 || a.body != content[100000:600001] {
				s.Errorf("range: %d, %d bytes", a.code, len(a.body))
			}
			if a := p.roundTrip(fcgiRequest{uri: "/f", method: "HEAD"}.String()); a.code != 200 || a.body != "" ||
				a.header.Get("Content-Length") != fmt.Sprint(len(content)) {
				s.Errorf("HEAD: %d, %d bytes, %v", a.code, len(a.body), a.header)
			}
			since := []string{"HTTP_IF_MODIFIED_SINCE", whole.header.Get("Last-Modified")}
			if a := p.roundTrip(fcgiRequest{uri: "/f", params: since}.String()); a.code != 304 || a.body != "" {
				s.Errorf("not modified: %d, %d bytes", a.code, len(a.body))
			}
			if a := p.roundTrip(aGET("/none")); a.code != 404 {
				s.Errorf("none: %d", a.code)
			}
		})
}

// A reverse proxy as the handler passes bodies in both directions.
func TestFCGIReverseProxyPassesBodies(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(dump))
	defer backend.Close()
	target, _ := url.Parse(backend.URL)
	everyFCGIMode(t, func() *http.Server {
		return &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
		}}}
	}, func(s *fcgiSite) {
		p := s.peer()
		for range 3 {
			a := p.roundTrip(fcgiRequest{method: "POST", uri: "/x?y", body: "hello", length: true,
				params: []string{"HTTP_HOST", "host", "REMOTE_ADDR", "192.0.2.1", "HTTPS", "on"}}.String())
			for _, want := range []string{`POST "/x?y" HTTP/1.1`, "X-Forwarded-For:[192.0.2.1]",
				"X-Forwarded-Host:[host]", "X-Forwarded-Proto:[https]", "length 5", `body "hello" <nil>`} {
				if !strings.Contains(a.body, want) {
					s.Errorf("%s is not in %s", want, a.body)
				}
			}
		}
	})
}
