package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// failure is a request that fails. What errors.Is and errors.As find in its error is the same with
// both transports, unless ours and theirs are set.
type failure struct {
	name         string
	ours, theirs string
	settings     func(*http.Transport)
	change       func(*http.Request) *http.Request
	scheme       string              // of the URL; "" is http
	reports      tare.TransportError // Side, Kind and CanRetry of ours; if Kind is 0, any
	serve        func(*scripted)
}

var errTest = errors.New("the test's error")

// responding returns what a server does that responds with text, whose line ends become CRLF, and
// ends the connection.
func responding(text string) func(*scripted) {
	return func(c *scripted) {
		if c.request() != nil {
			c.writeText(text)
			c.endSending()
		}
	}
}

// endSending ends the connection without resetting it, although bytes may not have been read.
func (c *scripted) endSending() {
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, c.r)
}

// resetting is like responding, but resets the connection.
func resetting(text string) func(*scripted) {
	return func(c *scripted) {
		c.request()
		c.writeText(text)
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
	}
}

// waiting returns what a server does that responds with text and leaves the connection open.
func waiting(text string) func(*scripted) {
	return func(c *scripted) {
		c.request()
		c.writeText(text)
		_, _ = io.Copy(io.Discard, c.r)
	}
}

// greeting returns what a server does that sends text as soon as a byte has arrived.
func greeting(text string) func(*scripted) {
	return func(c *scripted) {
		_, _ = c.r.Peek(1)
		c.writeText(text)
		c.endSending()
	}
}

func dialing(err error) func(*http.Transport) {
	return func(t *http.Transport) {
		t.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, err }
		t.DialTLSContext = t.DialContext
	}
}

// unwritable is a connection whose writes fail.
type unwritable struct{ net.Conn }

func (unwritable) Write([]byte) (int, error) { return 0, errTest }

// withoutDeadlines is a connection without deadlines, such as a tunnel of package ssh.
type withoutDeadlines struct{ net.Conn }

func (withoutDeadlines) SetDeadline(time.Time) error { return os.ErrNoDeadline }

func proxiedBy(scheme, host string) func(*http.Transport) {
	return func(t *http.Transport) {
		t.Proxy = func(r *http.Request) (*url.URL, error) {
			if host == "" {
				return &url.URL{Scheme: scheme, Host: r.URL.Host}, nil
			}
			return &url.URL{Scheme: scheme, Host: host}, nil
		}
	}
}

// refusing is an address at which nothing listens.
const refusing = "127.0.0.1:1"

func failuresOfConnecting() []failure {
	_, client := tlstest.Configs()
	tlsServer := func(c *scripted) {
		server, _ := tlstest.Configs()
		tc := tls.Server(c.Conn, server)
		_ = tc.Handshake()
		_ = tc.Close()
	}
	return []failure{
		{name: "dial", settings: dialing(errTest),
			reports: tare.TransportError{Side: tare.ServerSide, Kind: tare.CannotConnect, CanRetry: true}},
		{name: "connection accepts nothing", settings: func(t *http.Transport) {
			t.DialContext = func(context.Context, string, string) (net.Conn, error) {
				client, _ := net.Pipe()
				return unwritable{client}, nil
			}
		}, reports: tare.TransportError{Side: tare.ServerSide, Kind: tare.CannotSend, CanRetry: true}},
		{name: "dial, TLS", scheme: "https", settings: dialing(errTest)},
		{name: "dial, nothing", scheme: "https", settings: dialing(nil)},
		{name: "refused", settings: func(t *http.Transport) {
			t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", refusing)
			}
		}},
		{name: "no such host", settings: dialing(&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}})},
		{name: "timeout", settings: dialing(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded})},
		{name: "plain server", scheme: "https", serve: greeting("HTTP/1.1 400 Bad Request\n\n"),
			ours: "RecordHeaderError, SchemeMismatch", theirs: "SchemeMismatch"},
		{name: "not a TLS server", scheme: "https", serve: greeting("SSH-2.0-OpenSSH\n\n")},
		{name: "no handshake", scheme: "https", serve: greeting("")},
		{name: "unknown authority", scheme: "https", serve: tlsServer},
		{name: "wrong name", scheme: "https", serve: tlsServer, settings: func(t *http.Transport) {
			t.TLSClientConfig = client.Clone()
			t.TLSClientConfig.ServerName = "wrong.example"
		}},
		{name: "handshake timeout", scheme: "https", serve: func(c *scripted) { _, _ = io.Copy(io.Discard, c.r) },
			settings: func(t *http.Transport) { t.TLSHandshakeTimeout = 10 * time.Millisecond },
			ours:     "os.DeadlineExceeded, timeout", theirs: "timeout"},
		{name: "proxy function", settings: func(t *http.Transport) {
			t.Proxy = func(*http.Request) (*url.URL, error) { return nil, errTest }
		}},
		{name: "proxy refuses", settings: proxiedBy("http", refusing),
			reports: tare.TransportError{Side: tare.ProxySide, Kind: tare.CannotConnect, CanRetry: true}},
		{name: "TLS proxy refuses", settings: proxiedBy("https", refusing)},
		{name: "SOCKS proxy refuses", settings: proxiedBy("socks5", refusing)},
		{name: "TLS proxy, nothing", scheme: "https", settings: func(t *http.Transport) {
			dialing(nil)(t)
			proxiedBy("https", refusing)(t)
		}},
		{name: "SOCKS proxy rejects", settings: proxiedBy("socks5", ""), serve: greeting("\x05\xff")},
		{name: "TLS proxy without TLS", settings: proxiedBy("https", ""), serve: greeting("HTTP/1.1 400 No\n\n")},
		{name: "CONNECT rejected", scheme: "https", settings: proxiedBy("http", ""),
			serve:   responding("HTTP/1.1 407 Proxy Authentication Required\n\n"),
			reports: tare.TransportError{Side: tare.ProxySide, Kind: tare.CannotConnect, CanRetry: true}},
		{name: "long response to CONNECT", scheme: "https", settings: func(t *http.Transport) {
			proxiedBy("", "")(t) // without a scheme it is http
			t.MaxResponseHeaderBytes = 1000
		}, serve: responding("HTTP/1.1 200 OK\nA: " + strings.Repeat("a", 2000) + "\n\n")},
		{name: "body in the response to CONNECT", scheme: "https", settings: proxiedBy("http", ""), serve: func(c *scripted) {
			if c.respond("HTTP/1.1 200 OK\nContent-Length: 2\n\nhi") {
				tlsServer(c)
			}
		}, reports: tare.TransportError{Side: tare.ServerSide, Kind: tare.CannotConnect, CanRetry: true}},
		{name: "no response to CONNECT", scheme: "https", settings: proxiedBy("http", ""), serve: responding("")},
		{name: "plain server behind proxy", scheme: "https", settings: proxiedBy("http", ""), serve: func(c *scripted) {
			if c.respond("HTTP/1.1 200 OK\n\n") {
				greeting("HTTP/1.1 400 Bad Request\n\n")(c)
			}
		}, ours: "RecordHeaderError, SchemeMismatch", theirs: "SchemeMismatch"},
		{name: "hook of CONNECT", scheme: "https", serve: responding("HTTP/1.1 200 OK\n\n"),
			settings: func(t *http.Transport) {
				proxiedBy("http", "")(t)
				t.OnProxyConnectResponse = func(context.Context, *url.URL, *http.Request, *http.Response) error {
					return errTest
				}
			}},
	}
}

func failuresOfHeads() []failure {
	within := func(d time.Duration) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			context.AfterFunc(ctx, cancel)
			return r.WithContext(ctx)
		}
	}
	return []failure{
		{name: "no response", serve: responding(""),
			reports: tare.TransportError{Side: tare.ServerSide, Kind: tare.ConnectionClosed}},
		{name: "reset", serve: resetting("")},
		{name: "cut off in the status line", serve: responding("HTTP/1.1 2"), ours: "UnexpectedEOF", theirs: ""},
		{name: "cut off in a field", serve: responding("HTTP/1.1 200 OK\nContent-Le"), ours: "UnexpectedEOF",
			theirs: "textproto.ProtocolError"},
		{name: "no HTTP", serve: responding("SSH-2.0-OpenSSH\n\n"),
			reports: tare.TransportError{Side: tare.ServerSide, Kind: tare.MalformedResponse}},
		{name: "bad status", serve: responding("HTTP/1.1 abc OK\n\n")},
		{name: "bad field", serve: responding("HTTP/1.1 200 OK\nNoColon\n\n"), ours: "",
			theirs: "textproto.ProtocolError"},
		{name: "bad length", serve: responding("HTTP/1.1 200 OK\nContent-Length: x\n\n")},
		{name: "unknown coding", serve: responding("HTTP/1.1 200 OK\nTransfer-Encoding: gzip\n\n")},
		{name: "too long", serve: responding("HTTP/1.1 200 OK\nX: " + strings.Repeat("x", 5000) + "\n\n"),
			settings: func(t *http.Transport) { t.MaxResponseHeaderBytes = 1000 }},
		{name: "timeout", serve: waiting(""),
			settings: func(t *http.Transport) { t.ResponseHeaderTimeout = 10 * time.Millisecond },
			ours:     "context.DeadlineExceeded, os.DeadlineExceeded, timeout",
			theirs:   "context.DeadlineExceeded, timeout",
			reports:  tare.TransportError{Side: tare.ServerSide, Kind: tare.TimedOut}},
		{name: "deadline", serve: waiting(""), change: within(10 * time.Millisecond), settings: func(t *http.Transport) {
			t.DialContext = func(_ context.Context, network, address string) (net.Conn, error) {
				return net.Dial(network, address) // an error of a slow one would be about connecting
			}
		}},
		{name: "deadline of CONNECT", scheme: "https", serve: waiting(""), change: within(10 * time.Millisecond),
			settings: func(t *http.Transport) {
				proxiedBy("http", "")(t)
				t.DialContext = func(_ context.Context, network, address string) (net.Conn, error) {
					nc, err := net.Dial(network, address)
					return withoutDeadlines{nc}, err
				}
			}},
		{name: "deadline has passed", serve: waiting(""), change: within(-1)},
		{name: "cause", serve: waiting(""), change: func(r *http.Request) *http.Request {
			ctx, cancel := context.WithCancelCause(r.Context())
			cancel(errTest)
			return r.WithContext(ctx)
		}},
		{name: "interim hook", serve: responding("HTTP/1.1 103 Early Hints\n\n" + okHello),
			change: func(r *http.Request) *http.Request {
				return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
					Got1xxResponse: func(int, textproto.MIMEHeader) error { return errTest }}))
			}},
		{name: "body fails", serve: waiting(""), change: withBody(iotest.ErrReader(errTest), -1),
			reports: tare.TransportError{Side: tare.LocalSide, Kind: tare.BadRequestBody}},
		{name: "body fails later", serve: waiting(""),
			change: withBody(io.MultiReader(strings.NewReader("x"), iotest.ErrReader(errTest)), -1)},
		{name: "short body", serve: waiting(""), change: withBody(strings.NewReader("x"), 2)},
		{name: "long body", serve: waiting(""), change: withBody(strings.NewReader("xxx"), 2)},
		{name: "scheme", change: func(r *http.Request) *http.Request { r.URL.Scheme = "gopher"; return r }},
		{name: "method", change: func(r *http.Request) *http.Request { r.Method = "a b"; return r }},
		{name: "field value", change: func(r *http.Request) *http.Request { r.Header.Set("X", "a\nb"); return r }},
	}
}

func withBody(body io.Reader, length int64) func(*http.Request) *http.Request {
	return func(r *http.Request) *http.Request {
		r.Body, r.ContentLength = io.NopCloser(body), length
		return r
	}
}

func failuresOfBodies() []failure {
	const chunked = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"
	zipped := func(b []byte) func(*scripted) {
		return func(c *scripted) {
			if c.request() != nil {
				c.writeText(fmt.Sprintf("HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: %d\n\n", len(b)))
				_, _ = c.Write(b)
				c.endSending()
			}
		}
	}
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	_, _ = io.WriteString(w, "hello")
	_ = w.Close()
	whole := buffer.Bytes()
	return []failure{
		{name: "cut off", serve: responding("HTTP/1.1 200 OK\nContent-Length: 6\n\nhello")},
		{name: "reset", serve: resetting("HTTP/1.1 200 OK\nContent-Length: 6\n\nhello")},
		{name: "reset, unframed", serve: resetting("HTTP/1.1 200 OK\n\nhello")},
		{name: "chunk cut off", serve: responding(chunked + "6\nhello")},
		{name: "chunks cut off", serve: responding(chunked + "5\nhello\n")},
		{name: "trailer cut off", serve: responding(chunked + "5\nhello\n0\nX: y"), ours: "UnexpectedEOF", theirs: ""},
		{name: "bad chunk", serve: responding(chunked + "x\nhello\n0\n\n")},
		{name: "bad chunk end", serve: responding(chunked + "5\nhelloxx\n0\n\n")},
		{name: "long chunk line", serve: responding(chunked + "5;" + strings.Repeat("x", 20_000) + "\nhello\n0\n\n"),
			ours: "", theirs: "LineTooLong"},
		{name: "bad trailer", serve: responding(chunked + "0\nNo Colon\n\n"), ours: "",
			theirs: "textproto.ProtocolError"},
		{name: "no gzip", serve: zipped([]byte("hello, and more"))},
		{name: "gzip cut off", serve: zipped(whole[:len(whole)-9])},
		{name: "gzip head cut off", serve: zipped(whole[:2])},
		{name: "gzip checksum", serve: zipped(append(slices.Clone(whole[:len(whole)-8]), "12345678"...))},
		{name: "empty instead of gzip", serve: responding("HTTP/1.1 200 OK\nContent-Encoding: gzip\n\n")},
		{name: "cause", serve: waiting("HTTP/1.1 200 OK\nContent-Length: 6\n\nhello"),
			change: func(r *http.Request) *http.Request {
				ctx, cancel := context.WithCancelCause(r.Context())
				return r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
					GotFirstResponseByte: func() { time.AfterFunc(20*time.Millisecond, func() { cancel(errTest) }) }}))
			}},
	}
}

// What errors.Is and errors.As find in errors is what they find in those of net/http's Transport,
// by way of an http.Client.
func TestTransportErrorsAreThoseOfNetHTTP(t *testing.T) {
	t.Parallel()
	for topic, all := range map[string][]failure{"connecting": failuresOfConnecting(), "head": failuresOfHeads(),
		"body": failuresOfBodies()} {
		for _, f := range all {
			t.Run(topic+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				theirs := new(http.Transport)
				if f.settings != nil {
					f.settings(theirs)
				}
				ours := likeTheirs(theirs)
				err := f.send(t, ours)
				got, want := identity(err), identity(f.send(t, theirs))
				if e, ok := errors.AsType[*tare.TransportError](err); f.reports.Kind != 0 &&
					(!ok || e.Side != f.reports.Side || e.Kind != f.reports.Kind || e.CanRetry != f.reports.CanRetry) {
					t.Errorf("%#v, want %+v", err, f.reports)
				}
				if f.ours != f.theirs {
					if got != f.ours || want != f.theirs {
						t.Errorf("%q, net/http %q, want %q and %q", got, want, f.ours, f.theirs)
					}
				} else if got != want {
					t.Errorf("%q, net/http %q", got, want)
				}
			})
		}
	}
}

// send returns the error of the request or of its response's body.
func (f *failure) send(t *testing.T, rt http.RoundTripper) error {
	p := newPeer(t, "tcp")
	if f.serve != nil {
		p.runScript(func(_ int, c *scripted) { f.serve(c) })
	}
	address := p.url
	if f.scheme != "" {
		address = f.scheme + address[strings.Index(address, ":"):]
	}
	r := mustRequest("POST", address, nil)
	if f.change != nil {
		r = f.change(r)
	}
	client := &http.Client{Transport: rt}
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	return err
}

// identity returns what errors.Is and errors.As find in an error.
func identity(err error) string {
	if err == nil {
		return "none"
	}
	var all []string
	for name, target := range map[string]error{"EOF": io.EOF, "UnexpectedEOF": io.ErrUnexpectedEOF,
		"Canceled": context.Canceled, "context.DeadlineExceeded": context.DeadlineExceeded,
		"os.DeadlineExceeded": os.ErrDeadlineExceeded, "SchemeMismatch": http.ErrSchemeMismatch,
		"LineTooLong": http.ErrLineTooLong, "ECONNREFUSED": syscall.ECONNREFUSED, "ECONNRESET": syscall.ECONNRESET,
		"EPIPE": syscall.EPIPE, "Closed": net.ErrClosed, "gzip.Header": gzip.ErrHeader,
		"gzip.Checksum": gzip.ErrChecksum, "test": errTest} {
		if errors.Is(err, target) {
			all = append(all, name)
		}
	}
	for name, target := range map[string]any{"DNSError": new(*net.DNSError), "SyscallError": new(*os.SyscallError),
		"RecordHeaderError": new(tls.RecordHeaderError), "AlertError": new(tls.AlertError),
		"CertificateVerificationError": new(*tls.CertificateVerificationError),
		"UnknownAuthorityError":        new(x509.UnknownAuthorityError), "HostnameError": new(x509.HostnameError),
		"textproto.ProtocolError": new(textproto.ProtocolError), "http.ProtocolError": new(*http.ProtocolError)} {
		if errors.As(err, target) {
			all = append(all, name)
		}
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		all = append(all, "OpError of "+op.Op)
	}
	if timeout := (net.Error)(nil); errors.As(err, &timeout) && timeout.Timeout() {
		all = append(all, "timeout")
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
