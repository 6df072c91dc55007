package client_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/fcgi"
)

func dialUnix(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}

// localSocket serves on a unix socket and counts its connections.
func localSocket(t *testing.T) (path string, conns *atomic.Int64) {
	path, conns = filepath.Join(t.TempDir(), "s"), new(atomic.Int64)
	s := &http.Server{
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns.Add(1)
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if to := r.FormValue("to"); to != "" {
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
				return
			}
			fmt.Fprint(w, r.Host, " ", r.RequestURI)
		}),
	}
	l := listenAt(t, "unix", path)
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return path, conns
}

// UnixSockets maps hosts of URLs to unix sockets, whatever their port and case.
func TestTransportMapsHostsToUnixSockets(t *testing.T) {
	path, conns := localSocket(t)
	tr := &tare.Transport{UnixSockets: map[string]string{"docker": path}, Addr: "127.0.0.1:1",
		Proxy: http.ProxyURL(nil)}
	for _, tr := range []*tare.Transport{tr, tr.Clone()} {
		defer tr.CloseIdleConnections()
		for address, want := range map[string]string{
			"http://docker/a?b=c": "docker /a?b=c",
			"http://docker:8080/": "docker:8080 /",
			"http://Docker":       "Docker /",
		} {
			resp, err := tr.RoundTrip(mustRequest("GET", address, nil))
			if err != nil {
				t.Error(err)
				continue
			}
			if b, _ := io.ReadAll(resp.Body); string(b) != want {
				t.Errorf("%s: %s", address, b)
			}
		}
	}
	if conns.Load() != 2 {
		t.Errorf("%d connections of two Transports", conns.Load())
	}
	if resp, err := tr.RoundTrip(mustRequest("GET", "http://elsewhere/", nil)); err == nil {
		t.Errorf("another host: %s", resp.Status)
	}
	var onlyHTTP2 http.Protocols
	onlyHTTP2.SetUnencryptedHTTP2(true)
	other := &tare.Transport{UnixSockets: tr.UnixSockets, Protocols: &onlyHTTP2}
	if _, err := other.RoundTrip(mustRequest("GET", "http://docker/", nil)); err == nil ||
		!strings.Contains(err.Error(), "HTTP/1.1") {
		t.Errorf("without HTTP/1.1: %v", err)
	}
}

// A redirect from a remote server reaches no unix socket, however it is spelled.
func TestTransportRemoteRedirectsReachNoUnixSocket(t *testing.T) {
	path, conns := localSocket(t)
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.FormValue("to"))
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	defer remote.Close()
	mapped := map[string]string{"docker": path}
	for _, location := range []string{
		"http+unix://" + path + ":/containers/json", "http+unix://localhost" + path + ":/", "https+unix://" + path +
			":/", "HTTP+UNIX://" + path + ":/",
		"unix://" + path, "fcgi+unix://" + path, "http://unix:" + path + ":/", "file://" + path,
		"http://docker/", "http://docker:80/", "http://DOCKER/", "//docker/", "http://user@docker/", "https://docker/",
	} {
		for name, rt := range map[string]http.RoundTripper{
			"net/http": new(http.Transport), "tare": new(tare.Transport),
			"tare, mapped": &tare.Transport{UnixSockets: mapped}, "fcgi": new(fcgi.Transport),
		} {
			if name != "tare, mapped" && strings.Contains(strings.ToLower(location), "docker") {
				continue // DNS would be queried
			}
			client := &http.Client{Transport: rt}
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				r := mustRequest(method, remote.URL+"/?to="+location, strings.NewReader("secret"))
				if name == "fcgi" { // cannot reach the remote server: only the redirect matters
					if r.URL, _ = r.URL.Parse(location); r.URL == nil {
						continue
					}
				}
				if resp, err := client.Do(r); err == nil {
					t.Errorf("%s: %s %s: %s", name, method, location, resp.Status)
				}
			}
			client.CloseIdleConnections()
		}
	}
	if n := conns.Load(); n != 0 {
		t.Errorf("%d connections to the socket", n)
	}
}

// A server on a unix socket may redirect to itself, by a relative URL or by its name, but not to
// another socket.
func TestTransportUnixSocketRedirectsToItselfOnly(t *testing.T) {
	path, _ := localSocket(t)
	other, conns := localSocket(t)
	tr := &tare.Transport{UnixSockets: map[string]string{"one": path, "two": other}}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	for to, want := range map[string]string{"/a": "one /a", "http://one/b": "one /b", "http://One:80/c": "One:80 /c",
		"http://two/": ""} {
		resp, err := client.Get("http://one/?to=" + to)
		if err != nil {
			if want != "" || !strings.Contains(err.Error(), "redirect to") {
				t.Errorf("%s: %v", to, err)
			}
			continue
		}
		if b, _ := io.ReadAll(resp.Body); string(b) != want {
			t.Errorf("%s: %s, want %q", to, b, want)
		}
		resp.Body.Close()
	}
	if n := conns.Load(); n != 0 {
		t.Errorf("%d connections to the other socket", n)
	}
}
