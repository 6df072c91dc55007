package engine_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// Refused is called for each request that no handler sees, and for no other.
func TestRefusedRequestsAreReported(t *testing.T) {
	const good = "GET /good HTTP/1.1\r\n" + host + "\r\n"
	for _, c := range []struct{ name, send, want string }{
		{"bad line", "hello there\r\n\r\n", "hello there|||400"},
		{"behind an empty line", "\r\n\x16\x03\x01\r\n", "\x16\x03\x01|||400"},
		{"two hosts", "GET /x?y HTTP/1.1\r\nHost: a\r\nUser-Agent: ua\r\nHost: b\r\n\r\n",
			"GET /x?y HTTP/1.1|/x?y a|ua|400"},
		{"bad field", "POST /x HTTP/1.0\r\nHost: a\r\nX Y: z\r\nUser-Agent: ua\r\n\r\n", "POST /x HTTP/1.0|/x a||400"},
		{"two framings", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
			"POST /x HTTP/1.1|/x a||400"},
		{"bad target", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%zz HTTP/1.1|/%zz ||400"},
		{"user in target", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://u@a/ HTTP/1.1|http://u@a/ ||400"},
		{"host of target", "GET http://a/x HTTP/1.1\r\nHost: b\r\nX\r\n\r\n",
			"GET http://a/x HTTP/1.1|http://a/x a||400"},
		{"expectation", "GET /x HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", "GET /x HTTP/1.1|/x a||417"},
		{"version", "GET /x HTTP/2.0\r\nHost: a\r\n\r\n", "GET /x HTTP/2.0|||505"},
		{"large head", "GET /x HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 9000) + "\r\n\r\n",
			"GET /x HTTP/1.1|/x a||431"},
		{"large line", "GET /" + strings.Repeat("x", 9000) + " HTTP/1.1\r\n" + host + "\r\n", "GET /" +
			strings.Repeat("x", 8187) + "|||414"},
		{"behind another", good + "bad\r\n\r\n", "bad|||400"},
		{"cut off", "GET /x HT", "GET /x HT|||400"},
		{"cut off behind another", good + "GET /x HTTP/1.1\r\nHost: a\r\nUser", "GET /x HTTP/1.1|/x a||400"},
		{"nothing", "", ""},
		{"nothing behind another", good, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			reports := make(chan string, 10)
			hook := func(r engine.Refusal) { reports <- describeRefusal(t, r) }
			set := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
			someServers(t, set, func(s *engine.Server, set *http.Server) {
				s.Refused, set.MaxHeaderBytes = hook,
					4000
			}, func(s *site) {
				s.exchangeText(c.send)
				if got := received(reports); got != c.want {
					s.Errorf("got %q, want %q", got, c.want)
				}
			}, "tcp", "net.Conn", "unix", "tls", "ServeTLS")
		})
	}
}

func describeRefusal(t *testing.T, r engine.Refusal) string {
	if r.Request.RemoteAddr == "" || r.Request.URL == nil || r.Request.Header == nil ||
		r.Request.Context().Value(http.LocalAddrContextKey) == nil {
		t.Errorf("%+v", r.Request)
	}
	where := r.Request.RequestURI
	if where != "" {
		where += " " + r.Request.Host
	}
	return fmt.Sprintf("%s|%s|%s|%d", r.Line, where, r.Request.UserAgent(), r.Status)
}

// received returns what was reported, which happens before the connection ends.
func received(reports chan string) string {
	var all []string
	for len(reports) > 0 {
		all = append(all, <-reports)
	}
	return strings.Join(all, "; ")
}

// A head that is late is reported. A client that sends nothing is not.
func TestLateHeadsAreReported(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	for _, c := range []struct{ name, send, want string }{
		{"part of a line", "GET /x HT", "GET /x HT|||408"},
		{"part of a head", "GET /x HTTP/1.1\r\nHost: a\r\nUser-Agent: ua\r\n", "GET /x HTTP/1.1|/x a|ua|408"},
		{"behind another", get + "GET /y", "GET /y|||408"},
		{"an empty line", "\r\n", "|||408"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			reports := make(chan string, 10)
			set := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
			someServers(t, set, func(s *engine.Server, set *http.Server) {
				s.Refused = func(r engine.Refusal) { reports <- describeRefusal(t, r) }
				set.ReadHeaderTimeout, set.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond
			}, func(s *site) {
				c2 := s.connect()
				io.WriteString(c2, c.send)
				io.Copy(io.Discard, c2) // until it is closed
				if got := received(reports); got != c.want {
					s.Errorf("got %q, want %q", got, c.want)
				}
			}, "tcp", "net.Conn")
		})
	}
}

// A client that speaks HTTP to an HTTPS server is reported as far as its request is known. A client
// whose TLS handshake fails is not.
func TestPlaintextOnTLSIsReported(t *testing.T) {
	for send, want := range map[string]string{
		"GET /x HTTP/1.1\r\n\r\n": "GET /|||400", "hello\r\n\r\n": "hello|||400", "\x16\x03\x01\x00\x01\x01": "",
		"": "",
	} {
		reports := make(chan string, 10)
		set := &http.Server{Handler: http.NotFoundHandler()}
		someServers(t, set, func(s *engine.Server, _ *http.Server) {
			s.Refused = func(r engine.Refusal) { reports <- describeRefusal(t, r) }
		}, func(s *site) {
			c := s.connect()
			if tc, ok := c.(*tls.Conn); ok {
				c = tc.NetConn()
			}
			io.WriteString(c, send)
			if half, ok := c.(interface{ CloseWrite() error }); ok {
				half.CloseWrite()
			}
			io.Copy(io.Discard, c)
			if got := received(reports); got != want {
				s.Errorf("%q: got %q, want %q", send, got, want)
			}
		}, "tls", "ServeTLS")
	}
}

// lateHead is an incomplete head, and badHead a malformed one.
const (
	badHead = "bad\r\n\r\n"
)

// A hook that panics neither ends the process nor costs a client its due responses.
func TestRefusedHookPanicAffectsNoResponse(t *testing.T) {
	for send, want := range map[string]int{badHead: 1, get + badHead: 2} {
		set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "good")
		})}
		someServers(t, set, func(s *engine.Server, _ *http.Server) {
			s.Refused = func(engine.Refusal) { panic("hook's") }
		}, func(s *site) {
			c := s.connect()
			io.WriteString(c, send)
			if got, err := io.ReadAll(c); strings.Count(string(got), "HTTP/1.1 ") != want || err != nil {
				s.Errorf("%q: got %q, %v", send, got, err)
			}
			if logged := s.logged.String(); !strings.Contains(logged, "hook's") {
				s.Errorf("%q: logged %q", send, logged)
			}
		}, "tcp", "net.Conn", "tls", "ServeTLS")
	}
}
