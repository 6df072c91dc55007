package fcgi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/fcgi"
)

// The Transport and the Server of this package share only a codec. They work together over both
// kinds of socket, and as a reverse proxy and its application.
func TestTransportWorksWithServer(t *testing.T) {
	for network, addr := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			l, err := net.Listen(network, addr)
			if err != nil {
				t.Fatal(err)
			}
			s := &fcgi.Server{Handler: http.HandlerFunc(sumBody)}
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			transport := &fcgi.Transport{Network: network, Addr: l.Addr().String(), MaxConnsPerHost: 8,
				MaxIdleConnsPerHost: 8}
			front := httptest.NewServer(&httputil.ReverseProxy{Transport: transport,
				Rewrite: func(r *httputil.ProxyRequest) {
					r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host
				}})
			t.Cleanup(func() {
				front.Close()
				transport.CloseIdleConnections()
				if err := s.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
			direct := &http.Client{Transport: transport}
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					for _, size := range []int{0, 1, 1000, 100_000, 1_000_000} {
						requestSum(t, direct, "http://host.example", i, size)
						requestSum(t, http.DefaultClient, front.URL, i, size)
					}
				})
			}
			all.Wait()
		})
	}
}

// sumBody responds with a description of the request, the checksum of its body, and the body.
func sumBody(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %v %x\n", r.Method, r.RequestURI, r.Header.Get("X-Who"), err, sha256.Sum256(b))
	_, _ = w.Write(b)
}

func requestSum(t *testing.T, c *http.Client, url string, who, size int) {
	t.Helper()
	sent := bytes.Repeat([]byte{byte('a' + who)}, size)
	r, err := http.NewRequest(http.MethodPost, url+"/some/path?a=b", bytes.NewReader(sent))
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("X-Who", fmt.Sprint(who))
	resp, err := c.Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	head, body, _ := strings.Cut(string(got), "\n")
	want := fmt.Sprintf("POST /some/path?a=b %d <nil> %x", who, sha256.Sum256(sent))
	if err != nil || head != want || body != string(sent) {
		t.Errorf("%d bytes: got %q and %d bytes, %v; want %q", size, head, len(body), err, want)
	}
}
