package engine_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// headedListener is a listener whose connections begin with a byte of their own.
type headedListener struct{ net.Listener }

func (l headedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return headedConn{c}, nil
}

type headedConn struct{ net.Conn }

func (c headedConn) Socket(ctx context.Context, deadline time.Time) (net.Conn, context.Context, error) {
	_ = c.SetReadDeadline(deadline)
	var b [1]byte
	_, err := io.ReadFull(c.Conn, b[:])
	if b[0] != '!' && err == nil {
		err = errors.New("bad header")
	}
	_ = c.SetReadDeadline(time.Time{})
	return c.Conn, context.WithValue(ctx, headedConn{}, "of the header"), err
}

func startHeaded(t *testing.T, set *http.Server, mode string) (s *engine.Server, dial func() net.Conn) {
	l, _ := modes[mode](t)
	address := l.Addr().String()
	if s, ok := l.(secureListener); ok {
		l = secureListener{headedListener{s.Listener}, s.config}
	} else {
		l = headedListener{l}
	}
	s = engine.New(set)
	s.Plaintext = set.Handler
	serve(t, s, l)
	return s, func() net.Conn { return dialTCP(t, address) }
}

// dialTCP returns a connection with a deadline.
func dialTCP(t *testing.T, address string) net.Conn {
	t.Helper()
	return (&site{T: t, dial: dialer(address)}).connect()
}

// A connection is served once its header has arrived, together with a request or alone. TLS begins after
// it.
func TestConnectionsAreServedAfterTheirHeaders(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		testkit.Equal(t, r.Context().Value(headedConn{}), "of the header", "the context")
		dump(w, r)
	})
	s, dial := startHeaded(t, &http.Server{Handler: handler}, "tcp")
	for _, pieces := range [][]string{{"!" + getOld}, {"!", getOld}, {"!" + getOld[:5], getOld[5:]}} {
		c := dial()
		waiting := dial() // delays nobody
		for _, p := range pieces {
			io.WriteString(c, p)
		}
		testkit.Contains(t, readAllOf(t, c), `GET "/`, "response to", pieces)
		waiting.Close()
	}
	c := dial()
	io.WriteString(c, "?"+getOld)
	testkit.Equal(t, readAllOf(t, c), "", "after a bad header")
	awaitOpen(t, s, 0)
	_, dial = startHeaded(t, &http.Server{Handler: handler}, "ServeTLS")
	for _, secure := range []bool{false, true} {
		c = dial()
		io.WriteString(c, "!")
		if secure {
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		}
		io.WriteString(c, getOld)
		testkit.Contains(t, readAllOf(t, c), `GET "/`, "over TLS", secure)
	}
}

// Plaintext receives requests of clients that do not begin with TLS, and may take the connection. It
// receives nothing by HTTP/2, and nothing once TLS has begun.
func TestPlaintextReceivesHTTP1(t *testing.T) {
	for sent, want := range map[string]string{
		get: "*net.TCPConn.", "\x80" + get: "", "\x16" + get: "", "\x16\x03\x01\x00\x05" + get: "",
		badHead:                            "400 Bad Request: malformed method",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": "505 HTTP Version Not Supported: protocol is not HTTP/1",
	} {
		someServers(t, handle(func(http.ResponseWriter, *http.Request) { t.Errorf("%q is served", sent) }),
			func(s *engine.Server, _ *http.Server) {
				s.Plaintext = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					c := hijacked(t, w)
					fmt.Fprintf(c, "\r\n\r\n%T.", c)
					c.Close()
				})
			}, func(s *site) {
				s.dial = (&site{dial: s.dial}).dialBelow
				_, body, _ := strings.Cut(s.exchangeText(sent), "\r\n\r\n")
				testkit.Equal(s, body, want, sent)
			}, "ServeTLS")
	}
}

// A header must arrive within the timeout for a head. Close ends the wait for it, and Shutdown
// waits for the request.
func TestWaitForHeaderIsLimited(t *testing.T) {
	s, dial := startHeaded(t, &http.Server{ReadHeaderTimeout: 20 * time.Millisecond}, "tcp")
	testkit.Equal(t, readAllOf(t, dial()), "", "after the timeout")
	awaitOpen(t, s, 0)

	s, dial = startHeaded(t, &http.Server{}, "tcp")
	c := dial()
	awaitOpen(t, s, 1)
	s.Close()
	testkit.Equal(t, readAllOf(t, c), "", "after Close")
	awaitOpen(t, s, 0)

	s, dial = startHeaded(t, &http.Server{Handler: http.HandlerFunc(dump)}, "tcp")
	c = dial()
	awaitOpen(t, s, 1)
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	testkit.Error(t, s.Shutdown(short), context.DeadlineExceeded.Error(), "Shutdown while a header is awaited")
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	io.WriteString(c, "!"+get)
	testkit.Contains(t, readAllOf(t, c), "Connection: close", "during Shutdown")
	testkit.Check(t, <-ended)
}

const fewDescriptors = 40

// hoarder is a listener that takes all descriptors that are left after some connections. From then
// on Accept fails until a connection is closed.
type hoarder struct {
	net.Listener
	accepted int
	files    []*os.File
}

func (h *hoarder) Accept() (net.Conn, error) {
	if h.accepted++; h.accepted == fewDescriptors/2 {
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				break
			}
			h.files = append(h.files, f)
		}
	}
	return h.Listener.Accept()
}

// TestServerWithFewDescriptors is the role of a server of a protocol. It logs to its output.
func TestServerWithFewDescriptors(t *testing.T) {
	protocol := roleArguments(t)
	testkit.Must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE,
		&syscall.Rlimit{Cur: fewDescriptors, Max: fewDescriptors}))
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	fmt.Println(l.Addr())
	s := engine.New(&http.Server{ErrorLog: log.New(os.Stdout, "", 0), Handler: write("done.")})
	switch protocol {
	case "tls":
		go s.ServeTLS(l, &tls.Config{Certificates: []tls.Certificate{certificate(t)}})
	case "wrapped":
		go s.Serve(headedListener{&hoarder{Listener: l}})
	default:
		go s.Serve(l)
	}
	io.Copy(io.Discard, os.Stdin) // until the other process ends
}

// When descriptors run out, the connections that have waited longest are closed for new ones: idle
// ones, also of TLS, and those without a complete first message. Handshakes that wait for their
// clients keep their descriptors, until their clients close them or their time is over. Then the
// server accepts again. The lack is logged in package net's form. The delay is short, because the
// server accepts between the errors.
func TestConnectionsMakeRoomForNewOnes(t *testing.T) {
	t.Parallel()
	for protocol, begin := range map[string]func(c net.Conn) net.Conn{
		"tcp":     func(c net.Conn) net.Conn { return c },
		"wrapped": func(c net.Conn) net.Conn { io.WriteString(c, "!"); return c }, // see headedConn
		"tls":     func(c net.Conn) net.Conn { return tls.Client(c, &tls.Config{InsecureSkipVerify: true}) },
	} {
		t.Run(protocol, func(t *testing.T) {
			first, output := play(t, "TestServerWithFewDescriptors", protocol)
			address := strings.TrimSpace(first)
			s := &site{T: t, dial: dialer(address)}
			open := func(n int, text []byte) (all []net.Conn) {
				t.Helper()
				for range n {
					c := s.connect()
					if text == nil {
						c = begin(c)
						s.request(c, "/")
					}
					_, _ = c.Write(text)
					all = append(all, c)
					time.Sleep(2 * time.Millisecond) // the kernel measures waiting in milliseconds
				}
				return all
			}
			idle := open(3*fewDescriptors, nil)
			s.request(idle[len(idle)-1], "/")
			testkit.Fails(idle[0].Read(make([]byte, 1)))(t, "", "reading from the first connection")
			if protocol != "tls" {
				testkit.Matches(t, testkit.Value(output.ReadString('\n'))(t), "^http: Accept error: accept tcp "+
					regexp.QuoteMeta(address)+`: accept4: too many open files; retrying in (\d|10)ms\n$`, "the log")
				return
			}
			go io.Copy(io.Discard, output) // it logs handshakes that fail
			hello := tlstest.ClientHello(t)
			open(2*fewDescriptors, hello[:len(hello)/2])
			open(fewDescriptors, nil) // after parts of first messages
			for _, c := range open(2*fewDescriptors, hello) {
				c.Close()
			}
			testkit.WaitFor(t, "the end of the handshakes", func() bool { // until then any connection may make room
				c := begin(s.connect())
				defer c.Close()
				_, _ = io.WriteString(c, get)
				_, err := c.Read(make([]byte, 1))
				return err == nil
			})
			open(2*fewDescriptors, nil)
		})
	}
}
