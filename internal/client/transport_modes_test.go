package client_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/testkit"
)

// transportModes are the kinds of connection that test bodies run over: a listener, and a Transport
// that connects to it.
var transportModes = map[string]func(*testing.T, *tare.Transport) (net.Listener, string){
	"tcp": func(t *testing.T, tr *tare.Transport) (net.Listener, string) {
		l := listenAt(t, "tcp", "127.0.0.1:0")
		return l, "http://" + l.Addr().String()
	},
	"unix": func(t *testing.T, tr *tare.Transport) (net.Listener, string) {
		l := listenAt(t, "unix", filepath.Join(t.TempDir(), "s"))
		tr.Addr = l.Addr().String()
		return l, "http://host"
	},
	"tls": func(t *testing.T, tr *tare.Transport) (net.Listener, string) {
		l := listenAt(t, "tcp", "127.0.0.1:0")
		server, client := certificates()
		tr.TLSClientConfig = client
		return tls.NewListener(l, server), "https://" + l.Addr().String()
	},
	"memory": func(t *testing.T, tr *tare.Transport) (net.Listener, string) {
		nw := new(testkit.Network)
		l := nw.Listen()
		t.Cleanup(func() { l.Close() })
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return nw.Dial() }
		return l, "http://host"
	},
}

func listenAt(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// certificates returns the TLS configurations of a server and of its clients.
var certificates = sync.OnceValues(func() (server, client *tls.Config) {
	borrowed := httptest.NewUnstartedServer(nil)
	borrowed.StartTLS()
	defer borrowed.Close()
	pool := x509.NewCertPool()
	pool.AddCert(borrowed.Certificate())
	return &tls.Config{Certificates: borrowed.TLS.Certificates}, &tls.Config{RootCAs: pool}
})

// peer is a server, with the Transport that sends requests to it.
type peer struct {
	*testing.T
	mode string
	tr   *tare.Transport
	l    net.Listener
	url  string
}

// overAll runs a test over every kind of connection. set changes the settings of the Transport.
func overAll(t *testing.T, test func(*peer)) {
	t.Helper()
	for _, mode := range slices.Sorted(maps.Keys(transportModes)) {
		t.Run(mode, func(t *testing.T) { test(newPeer(t, mode)) })
	}
}

func newPeer(t *testing.T, mode string) *peer {
	p := &peer{T: t, mode: mode, tr: &tare.Transport{}}
	p.l, p.url = transportModes[mode](t, p.tr)
	t.Cleanup(p.tr.CloseIdleConnections)
	return p
}

// serve makes net/http serve the peer.
func (p *peer) serve(h http.HandlerFunc) *http.Server {
	return p.serveWith(&http.Server{Handler: h})
}

func (p *peer) serveWith(s *http.Server) *http.Server {
	s.ErrorLog = log.New(io.Discard, "", 0)
	done := make(chan struct{})
	go func() { _ = s.Serve(p.l); close(done) }()
	p.Cleanup(func() { s.Close(); <-done })
	return s
}

// script is what a peer does on one of its connections, which are numbered from 0.
type script func(n int, c *scripted)

// scripted is a peer's end of a connection.
type scripted struct {
	net.Conn
	r *bufio.Reader
	t *testing.T
}

// request reads a request and its body.
func (c *scripted) request() *http.Request {
	r, err := http.ReadRequest(c.r)
	if err != nil {
		return nil
	}
	b, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(b))
	return r
}

// writeText writes text. It converts line ends to CRLF.
func (c *scripted) writeText(text string) {
	_, _ = io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n"))
}

// respond reads a request and writes text. It reports whether there was a request.
func (c *scripted) respond(text string) bool {
	if c.request() == nil {
		return false
	}
	c.writeText(text)
	return true
}

// runScript makes the peer run a script on each connection, and close the connection afterwards.
func (p *peer) runScript(s script) {
	done := make(chan struct{})
	var running sync.WaitGroup
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			c, err := p.l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				s(n, &scripted{c, bufio.NewReader(c), p.T})
			})
		}
	}()
	p.Cleanup(func() {
		p.tr.CloseIdleConnections()
		p.l.Close()
		<-done
		running.Wait()
	})
}

// do sends a request and reads the response to its end.
func (p *peer) do(method, path string, body io.Reader) (*http.Response, string) {
	p.Helper()
	r, err := http.NewRequest(method, p.url+path, body)
	testkit.Must(p, err)
	resp, text, err := p.send(r)
	testkit.Must(p, err)
	return resp, text
}

func (p *peer) send(r *http.Request) (*http.Response, string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	resp, err := p.tr.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// countOf returns the numbers of a Transport's connections, which its methods do not show.
func countOf(tr *tare.Transport) client.Count {
	c := (*client.Client)(reflect.ValueOf(tr).Elem().FieldByName("client").UnsafePointer())
	if c == nil {
		return client.Count{} // before the first request
	}
	return c.Count()
}
