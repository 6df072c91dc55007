package tare_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	xh2c "golang.org/x/net/http2/h2c"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// A handler that implements HTTP/2 without TLS receives connections on which the client uses HTTP/2
// at once, and connections that are upgraded.
func TestHandlersCanServeHTTP2Themselves(t *testing.T) {
	handler := xh2c.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.URL.Path, b)
	}), new(http2.Server))
	for kind, serve := range unusedKinds {
		if kind == "tls" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			s, l := tare.Wrap(&http.Server{Handler: handler}), listen(t)
			served := make(chan error, 1)
			go func() { served <- serve(t, s, l) }()
			defer func() { s.Close(); <-served }()
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetUnencryptedHTTP2(true)
			defer transport.CloseIdleConnections()
			for range 3 {
				resp, err := (&http.Client{Transport: transport}).Post("http://"+l.Addr().String()+"/path", "",
					strings.NewReader("body"))
				testkit.Must(t, err)
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(b) != "HTTP/2.0 /path body" || err != nil {
					t.Errorf("%q, %v", b, err)
				}
			}
			for _, at := range []int{0, 1, 16, 17, 18, 20} { // the preface, in pieces
				const settings = "\x04\x00\x00\x00\x00\x00"
				if got := frames(t, l, http2.ClientPreface[:at], http2.ClientPreface[at:],
					settings); !strings.HasPrefix(got, "\x00\x00") {
					t.Errorf("%d: %q", at, got)
				}
			}
			upgrade := "GET /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" +
				"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
			if got := frames(t, l, upgrade, http2.ClientPreface, " /up "); !strings.HasPrefix(got, "HTTP/1.1 101 ") {
				t.Errorf("upgraded: %q", got)
			}
		})
	}
}

// prefaceListener's connections report a Read that returns the preface's end and more.
type prefaceListener struct {
	net.Listener
	t *testing.T
}

type prefaceConn struct {
	net.Conn
	t        *testing.T
	received int
}

func (l prefaceListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &prefaceConn{c, l.t, 0}, err
}

func (c *prefaceConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if end := len(http2.ClientPreface); c.received < end && c.received+n > end {
		c.t.Errorf("a Read returned %d bytes after %d", n, c.received)
	}
	c.received += n
	return n, err
}

// The connections of a listener may look for the preface, too.
func TestNoReadPassesPrefaceAsInNetHTTP(t *testing.T) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	newServer := func() *http.Server { return &http.Server{Handler: textHandler("x"), Protocols: transport.Protocols} }
	for _, s := range []server{newServer(), tare.Wrap(newServer())} {
		l, served := listen(t), make(chan error, 1)
		go func() { served <- s.Serve(prefaceListener{l, t}) }()
		resp, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String())
		testkit.Must(t, err)
		resp.Body.Close()
		transport.CloseIdleConnections()
		s.Close()
		<-served
	}
}

// frames sends two texts and then the frame that must follow. It returns the received bytes up to
// the wanted ones.
func frames(t *testing.T, l net.Listener, first, second, want string) (got string) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	testkit.Must(t, err)
	defer c.Close()
	io.WriteString(c, first)
	framer := http2.NewFramer(c, nil)
	io.WriteString(c, second)
	framer.WriteSettings()
	c.SetReadDeadline(time.Now().Add(patience))
	for b := make([]byte, 1<<10); !strings.Contains(got, want); {
		n, err := c.Read(b)
		if got += string(b[:n]); err != nil {
			t.Errorf("%v; want %q", err, want)
			break
		}
	}
	return got
}
