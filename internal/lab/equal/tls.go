package equal

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/tarehq/tare/internal/lab/contender"
)

// clientTLS returns the TLS configuration of a request. It offers the request's version of HTTP
// only.
func clientTLS(r Request) *tls.Config {
	config := contender.ClientTLS(r.Host)
	config.NextProtos = []string{"http/1.1"}
	if r.Version == HTTP2 {
		config.NextProtos = []string{"h2"}
	}
	if r.Resume {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	return config
}

func dial(ctx context.Context, at contender.Place, config *tls.Config) (net.Conn, *tls.ConnectionState, error) {
	if config == nil {
		c, err := new(net.Dialer).DialContext(ctx, at.Network(), at.Address)
		return c, nil, err
	}
	c, err := (&tls.Dialer{Config: config}).DialContext(ctx, at.Network(), at.Address)
	if err != nil {
		return nil, nil, err
	}
	state := c.(*tls.Conn).ConnectionState()
	return c, &state, nil
}

// describeTLS describes what was negotiated, and the certificate by the start of its SHA-256. It
// returns "" for nil.
func describeTLS(state *tls.ConnectionState) string {
	if state == nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s, %s, protocol %q", tls.VersionName(state.Version),
		tls.CipherSuiteName(state.CipherSuite), state.CurveID, state.NegotiatedProtocol)
	if len(state.PeerCertificates) > 0 {
		cert := state.PeerCertificates[0]
		text += fmt.Sprintf(", certificate %s %.6x", cert.PublicKeyAlgorithm, sha256.Sum256(cert.Raw))
	}
	if state.DidResume {
		text += ", resumed"
	}
	return text
}

// byHTTP2 sends a request on a connection by net/http's HTTP/2, and a second one if there may be
// more than one.
func byHTTP2(ctx context.Context, c net.Conn, r Request, negotiated string) (*Response, error) {
	var isUsed atomic.Bool
	next := func(context.Context, string, string) (net.Conn, error) {
		if isUsed.Swap(true) {
			return nil, errors.New("the connection was closed after a response")
		}
		return c, nil
	}
	transport := &http.Transport{DialTLSContext: next, DisableCompression: true, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	defer transport.CloseIdleConnections()
	a, err := overHTTP2(ctx, transport, r)
	if err != nil {
		return nil, err
	}
	a.TLS = negotiated
	if r.PerConnection != 1 {
		second, err := overHTTP2(ctx, transport, r)
		a.KeepAlive = err == nil && second.Status == a.Status
	}
	return a, nil
}

func overHTTP2(ctx context.Context, transport *http.Transport, r Request) (*Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, "https://"+r.Host+r.Path, nil)
	if err != nil {
		return nil, err
	}
	for _, line := range r.Header {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Add(name, strings.TrimSpace(value))
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
}
