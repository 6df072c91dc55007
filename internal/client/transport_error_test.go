package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// TestTransportErrorKindsAreExported provokes each kind of error, by what a server sends before it
// closes the connection.
func TestTransportErrorKindsAreExported(t *testing.T) {
	failed := errors.New("the body failed")
	for _, test := range []struct {
		name     string
		response string // "" closes the connection at once; "wait" sends nothing
		body     io.Reader
		dial     error
		proxy    string
		side     tare.TransportErrorSide
		kind     tare.TransportErrorKind
		text     string // of kind
	}{
		{name: "dial fails", dial: errors.New("no route"), side: tare.ServerSide, kind: tare.CannotConnect,
			text: "cannot connect"},
		{
			name: "dial to the proxy fails", dial: errors.New("no route"), proxy: "http://proxy.example:3128",
			side: tare.ProxySide, kind: tare.CannotConnect, text: "cannot connect",
		},
		{name: "connection closes", side: tare.ServerSide, kind: tare.ConnectionClosed, text: "connection closed"},
		{name: "response is not HTTP", response: "SSH-2.0-OpenSSH", side: tare.ServerSide, kind: tare.MalformedResponse,
			text: "malformed response"},
		{name: "no response in time", response: "wait", side: tare.ServerSide, kind: tare.TimedOut, text: "timed out"},
		{
			name: "body fails", response: "wait", body: io.MultiReader(strings.NewReader("x"), &failingReader{failed}),
			side: tare.LocalSide, kind: tare.BadRequestBody, text: "bad request body",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			transport := &tare.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				if test.dial != nil {
					return nil, test.dial
				}
				client, server := net.Pipe()
				go serveBytes(server, test.response)
				return client, nil
			}}
			if test.kind == tare.TimedOut {
				transport.ResponseHeaderTimeout = 20 * time.Millisecond
			}
			if test.proxy != "" {
				proxy, err := url.Parse(test.proxy)
				testkit.Must(t, err)
				transport.Proxy = http.ProxyURL(proxy)
			}
			defer transport.CloseIdleConnections()
			r, err := http.NewRequest(http.MethodPost, "http://server.example/", test.body)
			testkit.Must(t, err)
			_, err = transport.RoundTrip(r)
			var failure *tare.TransportError
			if !errors.As(err, &failure) {
				t.Fatalf("%T is not a TransportError: %v", err, err)
			}
			if failure.Side != test.side || failure.Kind != test.kind || failure.Kind.String() != test.text {
				t.Errorf("side %v, kind %v, want side %v, kind %v (%s)", failure.Side, failure.Kind, test.side,
					test.kind, test.text)
			}
			if test.kind == tare.BadRequestBody && !errors.Is(err, failed) {
				t.Errorf("%v does not wrap the error of the body", err)
			}
		})
	}
}

// TestTransportErrorCannotSend cuts a connection that accepts nothing of the request.
func TestTransportErrorCannotSend(t *testing.T) {
	transport := &tare.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		server.Close()
		return client, nil
	}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequest(http.MethodGet, "http://server.example/", nil)
	testkit.Must(t, err)
	_, err = transport.RoundTrip(r)
	var failure *tare.TransportError
	if !errors.As(err, &failure) || failure.Side != tare.ServerSide || failure.Kind != tare.CannotSend ||
		!failure.CanRetry {
		t.Errorf("%#v, want CannotSend on ServerSide, and CanRetry", err)
	}
}

// serveBytes reads the head of a request, sends response and closes the connection. The response
// "wait" leaves the connection open until the client closes it.
func serveBytes(c net.Conn, response string) {
	defer c.Close()
	var request []byte
	for b := make([]byte, 512); !bytes.Contains(request, []byte("\r\n\r\n")); {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		request = append(request, b[:n]...)
	}
	if response == "wait" {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	_, _ = io.WriteString(c, response)
}

// failingReader is a body whose Read fails.
type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }
