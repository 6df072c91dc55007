package fcgi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	netfcgi "net/http/fcgi"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/testkit"
)

// application starts net/http/fcgi.
func application(t testing.TB, network string, h http.HandlerFunc) (addr string) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = t.TempDir() + "/s"
	}
	l, err := net.Listen(network, at)
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	go netfcgi.Serve(l, h)
	return l.Addr().String()
}

// echo responds with a description of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.Header()["X-Many"] = []string{"one", "two"}
	w.Header().Set("x-method", r.Method)
	w.Header().Set("Content-Type", "text/plain")
	if code, err := strconv.Atoi(r.FormValue("status")); err == nil {
		w.WriteHeader(code)
	}
	fmt.Fprintf(w, "%s %s %s %q %d %v", r.Host, r.URL.RequestURI(), r.Header["X-Of-Request"], body,
		r.ContentLength, err)
}

// each runs a test over TCP and a unix socket, with and without keeping connections.
func each(t *testing.T, h http.HandlerFunc, f func(t *testing.T, tr *fcgi.Transport)) {
	for _, network := range []string{"tcp", "unix"} {
		for _, kept := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s-kept-%d", network, kept), func(t *testing.T) {
				f(t, checked(t, &fcgi.Transport{Network: network, Addr: application(t, network, h),
					MaxIdleConnsPerHost: kept}))
			})
		}
	}
}

func TestMethodsAndStatusesArrive(t *testing.T) {
	each(t, echo, func(t *testing.T, tr *fcgi.Transport) {
		for _, test := range []struct {
			method, path, body, want string
			length                   int64
		}{
			{"GET", "", "", `200 OK app.example / [a, b] "" 0 <nil>`, -1},
			{"", "", "", `200 OK app.example / [a, b] "" 0 <nil>`, -1},
			{"GET", "a%2Fb%20c?status=404&x", "",
				`404 Not Found app.example /a%2Fb%20c?status=404&x [a, b] "" 0 <nil>`, -1},
			{"POST", "p", "small", `200 OK app.example /p [a, b] "small" 5 <nil>`, -1},
			{"PUT", "p?status=201", "small", `201 Created app.example /p?status=201 [a, b] "small" 5 <nil>`, -1},
			{"POST", "p", "", `200 OK app.example /p [a, b] "" 0 <nil>`, -1},
			{"HEAD", "h", "", `200 OK `, -1},
			{"GET", "?status=204", "", `204 No Content `, 0},
			{"GET", "?status=304", "", `304 Not Modified `, 0},
			{"DELETE", "?status=299", "", `299 app.example /?status=299 [a, b] "" 0 <nil>`, -1},
		} {
			r := newRequest(t, "GET", address+test.path, strings.NewReader(test.body))
			r.Method = test.method
			r.Header["X-Of-Request"] = []string{"a", "b"}
			resp, body, err := responseTo(tr, r)
			if err != nil {
				t.Errorf("%s %s: %v", test.method, test.path, err)
				continue
			}
			if got := resp.Status + " " + body; got != test.want || resp.ContentLength != test.length {
				t.Errorf("%s %s\n got %s, length %d\nwant %s, length %d", test.method, test.path, got,
					resp.ContentLength, test.want, test.length)
			}
			if many := fmt.Sprint(resp.Header["X-Many"]); many != "[one two]" || resp.Header.Get("Status") != "" {
				t.Errorf("%s %s: header %v", test.method, test.path, resp.Header)
			}
			if resp.Request != r || resp.Proto != "HTTP/1.1" || resp.ProtoMajor != 1 || resp.ProtoMinor != 1 ||
				resp.Uncompressed || resp.Close {
				t.Errorf("%s %s: %+v", test.method, test.path, resp)
			}
		}
		if want := min(tr.MaxIdleConnsPerHost, 1); tr.Idle() != want {
			t.Errorf("%d connections are kept, want %d", tr.Idle(), want)
		}
	})
}

// A body of unknown length gets a length if it is buffered, and fails if it is too long.
func TestBufferedBodyHasLength(t *testing.T) {
	addr := application(t, "tcp", echo)
	const limit = 100 << 10
	tr := checked(t, &fcgi.Transport{Addr: addr, BufferBody: limit, MaxIdleConnsPerHost: 1})
	for _, size := range []int{0, 1, 10, 20 << 10, limit} {
		body := strings.Repeat("b", size)
		r := newRequest(t, "POST", address, io.MultiReader(strings.NewReader(body)))
		must(t, tr, r, fmt.Sprintf("app.example / [] %q %d <nil>", body, size))
	}
	body := newClosable(strings.NewReader(strings.Repeat("b", limit+1)))
	_, err := tr.RoundTrip(newRequest(t, "POST", address, body))
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); !ok || tooLong.Limit != limit {
		t.Errorf("a body that is too long: %v", err)
	}
	<-body.closed
}

// The Transport's fields or the URL determine the address of the application.
func TestAddressIsThatOfFieldsOrURL(t *testing.T) {
	tcp, unix := application(t, "tcp", echo), application(t, "unix", echo)
	for _, test := range []struct {
		tr        *fcgi.Transport
		url, want string // the beginning of the response, or a part of the error
	}{
		{&fcgi.Transport{}, "http://" + tcp + "/x", tcp + " /x"},
		{&fcgi.Transport{}, "fcgi://" + tcp + "/x", tcp + " /x"},
		{&fcgi.Transport{Addr: unix}, "http://h/x", "h /x"},
		{&fcgi.Transport{Addr: unix, Network: "unix"}, "https://h/x", "h /x"},
		{&fcgi.Transport{Addr: tcp}, "fcgi://h:12/x", "h:12 /x"},
		{&fcgi.Transport{Addr: tcp, Network: "tcp4"}, "//h/x", "h /x"},
		{&fcgi.Transport{}, "http://localhost/x", "want host and port, or set Addr"},
		{&fcgi.Transport{}, "http://:9000/x", "want host and port, or set Addr"},
		{&fcgi.Transport{Addr: tcp}, "ftp://h/x", "unsupported scheme"},
		{&fcgi.Transport{Addr: unix, Network: "tcp"}, "http://h/x", "tare: connecting to " + unix},
		{&fcgi.Transport{Addr: unix + "-not"}, "http://h/x", "tare: connecting to " + unix + "-not: dial unix"},
	} {
		_, body, err := responseTo(checked(t, test.tr), get(t, test.url))
		if !strings.HasPrefix(body, test.want) && !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%s with %q %q: %q, %v; want %s", test.url, test.tr.Network, test.tr.Addr, body, err, test.want)
		}
	}
}

// An http.Client can use the scheme fcgi, and follows redirects.
func TestHTTPClientUsesTransport(t *testing.T) {
	addr := application(t, "tcp", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/from" {
			http.Redirect(w, r, "/to", http.StatusSeeOther)
			return
		}
		echo(w, r)
	})
	var base http.Transport
	base.RegisterProtocol("fcgi", checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 1}))
	client := &http.Client{Transport: &base, Timeout: patience}
	resp, err := client.Post("fcgi://"+addr+"/from", "text/plain", strings.NewReader("body"))
	testkit.Must(t, err)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != addr+` /to [] "" 0 <nil>` || err != nil {
		t.Errorf("%q %v", b, err)
	}
}

// proxy serves an application to HTTP clients.
func proxy(t testing.TB, tr http.RoundTripper) (url string) {
	t.Helper()
	s := httptest.NewServer(&httputil.ReverseProxy{Transport: tr, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", p.In.Host
		}})
	t.Cleanup(s.Close)
	return s.URL
}

// The Transport and the Server of this package share only a codec. They work together over both
// kinds of socket, and as a reverse proxy and its application.
func TestTransportWorksWithServer(t *testing.T) {
	for network, addr := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			l, err := net.Listen(network, addr)
			testkit.Must(t, err)
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
