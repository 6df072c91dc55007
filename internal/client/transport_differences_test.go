package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

func differencesOfRequests() []difference {
	return []difference{
		{row: "Spaces in a request's target, a malformed host", ours: "error", theirs: "200 GET /?a b HTTP/1.1",
			observe: func(s side) string {
				s.echoLines("GET")
				r := mustRequest("GET", s.url+"/", nil)
				r.URL.RawQuery = "a b"
				return s.request(r)
			}},
		{row: "Spaces in a request's target, a malformed host", ours: "error", theirs: "200 Host:",
			observe: func(s side) string {
				s.echoLines("Host:")
				r := mustRequest("GET", s.url, nil)
				r.Host = "a\tb"
				return s.request(r)
			}},
		{row: "`content-length` in `Header`, and the like", ours: "200 Content-Length: 4",
			theirs: "200 Content-Length: 4; content-length: 9", observe: func(s side) string {
				s.echoLines("Content-Length", "content-length")
				r := mustRequest("POST", s.url, strings.NewReader("body"))
				r.Header["content-length"] = []string{"9"}
				return s.request(r)
			}},
		{row: "A body with CONNECT", ours: "error", theirs: "200 ping", observe: func(s side) string {
			s.runScript(func(_ int, c *scripted) {
				for line := ""; line != "\r\n"; {
					var err error
					if line, err = c.r.ReadString('\n'); err != nil {
						return
					}
				}
				c.writeText("HTTP/1.1 200 OK\nContent-Length: 4\n\n")
				_, _ = io.CopyN(c, c.r, 4)
			})
			return s.request(mustRequest("CONNECT", s.url, io.MultiReader(strings.NewReader("ping"))))
		}},
		{row: "101 while the request's body is being sent", ours: "error", theirs: "101", observe: func(s side) string {
			s.runScript(func(_ int, c *scripted) {
				if _, err := http.ReadRequest(c.r); err == nil {
					c.writeText("HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: echo\n\n")
					_, _ = io.Copy(io.Discard, c.r)
				}
			})
			body, feed := io.Pipe()
			defer feed.Close()
			r := upgradeRequest(s.url)
			r.Method, r.Body, r.ContentLength = "POST", body, -1
			resp, err := s.rt.RoundTrip(r)
			if err != nil {
				return "error"
			}
			resp.Body.Close()
			return fmt.Sprint(resp.StatusCode)
		}},
		{row: "A body of unknown length with GET, HEAD, …", ours: "200 Transfer-Encoding: chunked", theirs: "200 ",
			observe: func(s side) string {
				s.echoLines("Transfer-Encoding", "Content-Length")
				return s.request(mustRequest("GET", s.url, io.MultiReader()))
			}},
		{row: "A request whose body was read before", ours: "200 ping200 ping", theirs: "200 pingerror",
			settings: &http.Transport{DisableKeepAlives: true}, observe: sendTwice},
		{row: "A request whose body was read before", ours: "200 ping200 ping", theirs: "200 ping200 ping",
			observe: sendTwice},
		{row: "A final response while the body waits for \"100 Continue\"", ours: "", theirs: "body",
			settings: &http.Transport{ExpectContinueTimeout: time.Minute}, observe: func(s side) string {
				sent := make(chan string, 1)
				s.runScript(func(_ int, c *scripted) {
					if r, err := http.ReadRequest(c.r); err == nil {
						c.writeText("HTTP/1.1 401 No\nContent-Length: 0\n\n")
						b, _ := io.ReadAll(r.Body)
						sent <- string(b)
					}
				})
				r := mustRequest("POST", s.url, strings.NewReader("body"))
				r.Header.Set("Expect", "100-continue")
				if got := s.request(r); got != "401 " {
					return got
				}
				return <-sent
			}},
		{row: "`Request.Cancel`", ours: "200 hello", theirs: "error", observe: func(s side) string {
			cancel := make(chan struct{})
			s.runScript(func(_ int, c *scripted) {
				if c.request() == nil {
					return
				}
				if close(cancel); !s.ours {
					_, _ = c.r.ReadByte() // until it is closed
				}
				c.writeText(okHello)
			})
			r := mustRequest("POST", s.url, nil)
			r.Cancel = cancel // a deprecated field is one of the differences
			return s.request(r)
		}},
	}
}

// sendTwice sends a request, whose body the server returns, and then sends it again.
func sendTwice(s side) string {
	s.runScript(func(_ int, c *scripted) {
		for r := c.request(); r != nil; r = c.request() {
			b, _ := io.ReadAll(r.Body)
			c.writeText(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: %d\n\n%s", len(b), b))
		}
	})
	r := mustRequest("POST", s.url, strings.NewReader("ping"))
	return s.request(r) + s.request(r)
}

func differencesOfResponses() []difference {
	return []difference{
		{row: "Fields in a response's head", ours: "error", theirs: "200 ", observe: func(s side) string {
			s.respondWith("HTTP/1.1 200 OK\n" + strings.Repeat("A: b\n", 1000) + "Content-Length: 0\n\n")
			return s.request(mustRequest("POST", s.url, nil))
		}},
		{row: "`Content-Length`, `Host` and the like in a trailer section", ours: "hi map[A:[b]]",
			theirs: "hi map[A:[b] Content-Length:[4]]", observe: func(s side) string {
				s.respondWith("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nhi\n0\nContent-Length: 4\nA: b\n\n")
				resp := s.response(mustRequest("POST", s.url, nil))
				b, _ := io.ReadAll(resp.Body)
				return fmt.Sprint(string(b), " ", resp.Trailer)
			}},
		{row: "Interim responses", ours: "error", theirs: "200 hello", observe: func(s side) string {
			s.respondWith(strings.Repeat("HTTP/1.1 103 Early Hints\n\n", 101) + okHello)
			return s.request(mustRequest("POST", s.url, nil))
		}},
		{row: "Interim responses", ours: "error", theirs: "error",
			settings: &http.Transport{MaxResponseHeaderBytes: 1000}, observe: func(s side) string {
				s.respondWith(strings.Repeat("HTTP/1.1 103 Early Hints\n\n", 50) + okHello)
				return s.request(mustRequest("POST", s.url, nil))
			}},
		{row: "Interim responses", ours: "200 hello", theirs: "200 hello",
			settings: &http.Transport{MaxResponseHeaderBytes: 1000}, observe: func(s side) string {
				s.respondWith(strings.Repeat("HTTP/1.1 103 Early Hints\n\n", 50) + okHello)
				return s.request(mustRequest("POST", s.url,
					nil).WithContext(httptrace.WithClientTrace(s.Context(), new(recorder).trace())))
			}},
		{row: "Body of a 2xx to CONNECT", ours: "writes; early", theirs: "ear", observe: func(s side) string {
			s.runScript(func(_ int, c *scripted) { c.respond("HTTP/1.1 200 OK\nContent-Length: 3\n\nearly") })
			resp := s.response(mustRequest("CONNECT", s.url, nil))
			b, _ := io.ReadAll(resp.Body)
			if _, ok := resp.Body.(io.ReadWriteCloser); ok {
				return "writes; " + string(b)
			}
			return string(b)
		}},
		{row: "101 without `Connection: Upgrade`, or with `close`", ours: "early", theirs: "",
			observe: func(s side) string {
				return s.upgrade("HTTP/1.1 101 Switching Protocols\nUpgrade: echo\n\nearly")
			}},
		{row: "101 without `Connection: Upgrade`, or with `close`", ours: "early", theirs: "",
			observe: func(s side) string {
				return s.upgrade("HTTP/1.1 101 Switching Protocols\nConnection: close, Upgrade\nUpgrade: echo\n\nearly")
			}},
		{row: "A chunk of which a part has arrived", ours: "part", theirs: "whole", observe: func(s side) string {
			s.respondWith("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2000\n" + strings.Repeat("x", 0x2000) + "\n0\n\n")
			resp := s.response(mustRequest("POST", s.url, nil))
			if n, _ := resp.Body.Read(make([]byte, 0x2000)); n < 0x2000 {
				return "part"
			}
			return "whole"
		}},
		{row: "Failed requests", ours: "server, connection closed, retry false", theirs: "EOF",
			observe: func(s side) string {
				s.runScript(func(_ int, c *scripted) { c.request() })
				_, err := s.rt.RoundTrip(mustRequest("POST", s.url, nil))
				if failure := (*tare.TransportError)(nil); errors.As(err, &failure) {
					return fmt.Sprintf("%v, %v, retry %v", failure.Side, failure.Kind, failure.CanRetry)
				}
				return err.Error()
			}},
	}
}

func differencesOfConnections() []difference {
	return []difference{
		{row: "A request that waits for a dial", ours: "200 1", theirs: "200 0", observe: waitForDial},
		{row: "A whole response in the first read", ours: "200 0", theirs: "200 1", observe: func(s side) string {
			s.numberConns(okHello)
			s.response(mustRequest("GET", s.url, nil))
			return s.connNumber()
		}},
		{row: "A context that ends after that", ours: "200 0", theirs: "200 1", observe: func(s side) string {
			ended := make(chan bool)
			s.runScript(func(n int, c *scripted) {
				for c.respond(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: 1\n\n%d", n)) {
				}
				if n == 0 {
					close(ended)
				}
			})
			ctx, cancel := context.WithCancel(s.Context())
			defer cancel()
			s.response(mustRequest("GET", s.url, nil).WithContext(ctx))
			if cancel(); !s.ours {
				<-ended
			}
			return s.connNumber()
		}},
	}
}

// upgrade returns the body of the response to a request to switch protocols.
func (s side) upgrade(response string) string {
	s.runScript(func(_ int, c *scripted) { c.respond(response) })
	b, _ := io.ReadAll(s.response(upgradeRequest(s.url)).Body)
	return string(b)
}

// waitForDial makes a second request wait for its connection until the first has its response.
func waitForDial(s side) string {
	dial, waits := make(chan bool), make(chan bool)
	var dials atomic.Int32
	s.set("DialContext", func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) == 2 {
			close(waits)
			<-dial
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	})
	received, release := make(chan bool), make(chan bool)
	s.runScript(func(n int, c *scripted) {
		for first := n == 0; c.request() != nil; first = false {
			if first {
				close(received)
				<-release
			}
			c.writeText(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Length: 1\n\n%d", n))
		}
	})
	results := [2]chan string{make(chan string, 1), make(chan string, 1)}
	go func() { results[0] <- s.connNumber() }()
	<-received
	go func() { results[1] <- s.connNumber() }()
	<-waits
	close(release)
	<-results[0]
	if s.ours {
		close(dial)
		return <-results[1]
	}
	defer close(dial)
	return <-results[1]
}

func differencesOfSettings() []difference {
	atProxy := "error"
	if !testkit.NetHTTPPrecedes("go1.27") {
		atProxy = "200 hello"
	}
	return []difference{
		{row: "A proxy's 2xx to CONNECT other than 200", ours: "C\x16", theirs: "C", // and a handshake
			observe: func(s side) string { return s.throughProxy("http", "GET", "https://server.invalid") }},
		{row: "A proxy of an unknown scheme", ours: "", theirs: "G",
			observe: func(s side) string { return s.throughProxy("ftp", "GET", "http://server.invalid") }},
		{row: "CONNECT through a proxy", ours: "CC", theirs: "C",
			observe: func(s side) string { return s.throughProxy("http", "CONNECT", "http://server.invalid") }},
		{row: "HTTP/2 to an `https` proxy", ours: "200 hello", theirs: atProxy, observe: func(s side) string {
			where, _ := url.Parse(s.helloOverTLS(true).URL)
			s.set("Proxy", http.ProxyURL(where))
			s.set("TLSClientConfig", &tls.Config{InsecureSkipVerify: true})
			s.set("ForceAttemptHTTP2", true)
			return s.request(mustRequest("GET", "http://server.invalid", nil))
		}},
		{row: "`TLSClientConfig`", ours: "error", theirs: "200 hello", observe: func(s side) string {
			server := s.helloOverTLS(false)
			if got := s.request(mustRequest("GET", server.URL, nil)); got != "error" {
				return got
			}
			s.set("TLSClientConfig", &tls.Config{InsecureSkipVerify: true})
			return s.request(mustRequest("GET", server.URL, nil))
		}},
		{row: "`WriteBufferSize`", ours: "1 write", theirs: "several", settings: &http.Transport{WriteBufferSize: 16},
			observe: func(s side) string {
				var writes atomic.Int32
				s.set("DialContext", func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := new(net.Dialer).DialContext(ctx, network, addr)
					return &writesOf{nc, &writes}, err
				})
				s.respondWith(okHello)
				if got := s.request(mustRequest("POST", s.url, strings.NewReader("body"))); got != "200 hello" {
					return got
				}
				if writes.Load() == 1 {
					return "1 write"
				}
				return "several"
			}},
		{row: "Unix sockets", ours: "200 hello", theirs: "error", observe: func(s side) string {
			there := side{peer: newPeer(s.T, "unix")}
			there.respondWith(okHello)
			if s.ours {
				s.tr.UnixSockets = map[string]string{"socket.invalid": there.l.Addr().String()}
			}
			return s.request(mustRequest("GET", "http://socket.invalid/", nil))
		}},
		{row: "`Dial`, `DialTLS`, `TLSNextProto`, `CancelRequest`, `NewClientConn`, `RegisterProtocol`", theirs: "[]",
			ours: "[CancelRequest Dial DialTLS NewClientConn RegisterProtocol TLSNextProto]", observe: func(s side) string {
				has, all := reflect.TypeOf(s.rt), reflect.TypeFor[*http.Transport]()
				absent := []string{}
				for m := range all.Methods() {
					if _, ok := has.MethodByName(m.Name); !ok {
						absent = append(absent, m.Name)
					}
				}
				for f := range all.Elem().Fields() {
					if _, ok := has.Elem().FieldByName(f.Name); f.IsExported() && !ok {
						absent = append(absent, f.Name)
					}
				}
				slices.Sort(absent)
				return fmt.Sprint(absent)
			}},
	}
}

// helloOverTLS returns a server that responds with hello.
func (s side) helloOverTLS(isHTTP2 bool) *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello")
	}))
	server.Config.ErrorLog, server.EnableHTTP2 = log.New(io.Discard, "", 0), isHTTP2
	server.StartTLS()
	s.Cleanup(server.Close)
	return server
}

// throughProxy sends a request through a proxy that responds with 201 to whatever it receives, and
// returns the first byte of each piece.
func (s side) throughProxy(scheme, method, address string) (all string) {
	received := make(chan byte, 9)
	s.runScript(func(_ int, c *scripted) {
		b := make([]byte, 16<<10)
		for n, _ := c.Read(b); n > 0; n, _ = c.Read(b) {
			received <- b[0]
			c.writeText("HTTP/1.1 201 OK\nContent-Length: 0\n\n")
		}
	})
	s.set("Proxy", http.ProxyURL(&url.URL{Scheme: scheme, Host: s.l.Addr().String()}))
	if resp, err := s.rt.RoundTrip(mustRequest(method, address, nil)); err == nil {
		resp.Body.Close()
	}
	for range len(received) {
		all += string(<-received)
	}
	return all
}

// writesOf counts writes.
type writesOf struct {
	net.Conn
	n *atomic.Int32
}

func (c *writesOf) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}
