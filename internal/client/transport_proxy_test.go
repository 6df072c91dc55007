package client_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// A proxy receives absolute URLs for http, and CONNECT for https. Only the proxy receives its
// password.
func TestTransportUsesHTTPProxies(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %v", r.RequestURI, r.Header["Proxy-Authorization"])
	})
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	defer plain.Close()
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	var mu sync.Mutex
	var requests []string
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host },
		Transport: &tare.Transport{}}
	front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if r.Method != http.MethodConnect {
			forward.ServeHTTP(w, r)
			return
		}
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			tunnelTo(c, "HTTP/1.1 200 OK\r\n\r\n", r.Host)
		}
	})
	for _, proxy := range []*httptest.Server{httptest.NewServer(front), httptest.NewTLSServer(front)} {
		defer proxy.Close()
		where, _ := url.Parse(proxy.URL)
		where.User = url.UserPassword("u", "p")
		config := secure.Client().Transport.(*http.Transport).TLSClientConfig
		theirs := &http.Transport{Proxy: http.ProxyURL(where), TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true}
		ours := &tare.Transport{Proxy: theirs.Proxy, TLSClientConfig: config, ForceAttemptHTTP2: true}
		var hooks [2][]string
		for i, tr := range []http.RoundTripper{theirs, ours} {
			requests = nil
			for _, address := range []string{plain.URL, secure.URL} {
				c := new(recorder)
				ctx := httptrace.WithClientTrace(t.Context(), c.trace())
				resp, text, err := exchange(tr, mustRequest("GET", address+"/a?b", nil).WithContext(ctx))
				testkit.Must(t, err)
				testkit.Equal(t, text, "/a?b []", address)
				testkit.Equal(t, resp.ProtoMajor == 2, address == secure.URL, address, "over HTTP/2")
				c.note("TLS %v", resp.TLS != nil)
				c.mu.Lock()
				hooks[i] = append(hooks[i], c.hooks[:slices.Index(c.hooks, "GotConn false false")+1]...)
				hooks[i] = append(hooks[i], c.hooks[len(c.hooks)-1])
				c.mu.Unlock()
			}
			want := []string{"GET " + plain.URL + "/a?b Basic dTpw",
				"CONNECT " + secure.Listener.Addr().String() + " Basic dTpw"}
			testkit.Equal(t, requests, want, "the proxy received")
		}
		testkit.Equal(t, hooks[1], hooks[0], "hooks and TLS beside net/http")
		theirs.CloseIdleConnections()
		ours.CloseIdleConnections()
	}
}

// tunnelTo sends a head to a client, and connects it with a server.
func tunnelTo(c net.Conn, head, host string) {
	defer c.Close()
	io.WriteString(c, head)
	if to, err := net.Dial("tcp", host); err == nil {
		go func() { io.Copy(to, c); to.Close() }()
		io.Copy(c, to)
	}
}

// The names that are dialed for hosts and proxies with other letters are those of http.Transport.
func TestTransportDialsNamesOfNetHTTP(t *testing.T) {
	for _, host := range []string{"bücher.example", "BÜCHER.example:81", "ｆｏｏ.example", "faß.example", "１.2.3.4",
		"a_ü.example", "a\u200db.example"} {
		for _, proxy := range []string{"", "http://" + host, "https://" + host, "socks5://" + host} {
			var dialed []string // and the name in the hello to an https proxy
			server, _ := tlstest.Configs()
			config := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
				dialed = append(dialed, s.ServerName)
				return net.ErrClosed
			}}
			dial := func(_ context.Context, _, addr string) (net.Conn, error) {
				if dialed = append(dialed, addr); !strings.HasPrefix(proxy, "https:") {
					return nil, net.ErrClosed
				}
				client, peer := net.Pipe()
				go tls.Server(peer, server).Handshake()
				return client, nil
			}
			theirs := &http.Transport{DialContext: dial, TLSClientConfig: config}
			if proxy != "" {
				theirs.Proxy = http.ProxyURL(testkit.Value(url.Parse(proxy))(t))
			}
			var got [2][]string
			for i, tr := range []http.RoundTripper{likeTheirs(theirs), theirs} {
				dialed = nil
				r := mustRequest("GET", "http://"+host+"/", nil)
				testkit.FailsWith(tr.RoundTrip(r))(t, net.ErrClosed, host, "through", proxy)
				got[i] = dialed
			}
			testkit.Equal(t, got[0], got[1], host, "through", proxy, "beside net/http")
		}
	}
}

// An httputil.ReverseProxy works on a Transport, in both directions and with upgrades.
func TestTransportUnderReverseProxy(t *testing.T) {
	overAll(t, func(p *peer) {
		p.serve(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "" {
				nc, rw, _ := http.NewResponseController(w).Hijack()
				defer nc.Close()
				io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				io.Copy(nc, rw)
				return
			}
			// first, because net/http's server stops reading when it writes
			b, _ := io.ReadAll(r.Body)
			w.Write(b)
		})
		target, _ := url.Parse(p.url)
		front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: p.tr})
		defer front.Close()
		big := strings.Repeat("0123456789", 100_000)
		resp := testkit.Value(http.Post(front.URL, "text/plain", io.MultiReader(strings.NewReader(big))))(p)
		testkit.Reads(p, resp.Body, big)
		c := testkit.Value(net.Dial("tcp", front.Listener.Addr().String()))(p)
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		br := bufio.NewReader(c)
		testkit.Equal(p, testkit.Value(http.ReadResponse(br, nil))(p).StatusCode, 101)
		io.WriteString(c, "ping")
		testkit.Receives(p, br, "ping")
	})
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
			if _, text, err := exchange(tr, mustRequest("GET", address, nil)); text != want {
				t.Errorf("%s: %q, %v", address, text, err)
			}
		}
	}
	testkit.Equal(t, conns.Load(), 2, "connections of two Transports")
	testkit.Fails(tr.RoundTrip(mustRequest("GET", "http://elsewhere/", nil)))(t, "", "another host")
	other := &tare.Transport{UnixSockets: tr.UnixSockets, Protocols: onlyHTTP2()}
	testkit.Fails(other.RoundTrip(mustRequest("GET", "http://docker/", nil)))(t, "HTTP/1.1", "without HTTP/1.1")
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
				testkit.Fails(client.Do(r))(t, "", name, method, location)
			}
			client.CloseIdleConnections()
		}
	}
	testkit.Equal(t, conns.Load(), 0, "connections to the socket")
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
		testkit.Equal(t, string(testkit.Value(io.ReadAll(resp.Body))(t)), want, to)
		resp.Body.Close()
	}
	testkit.Equal(t, conns.Load(), 0, "connections to the other socket")
}
