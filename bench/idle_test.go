package bench_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	tlsCrowd = 4_000 // idle connections over TLS

	protoHTTP1 = "http/1.1"
	protoHTTP2 = "h2"
)

// idleOverTLS returns the cases of idle connections over TLS.
func idleOverTLS() []scenario {
	var all []scenario
	for _, c := range []struct {
		name, proto  string
		require, aim float64
	}{{"idle-tls-4000", protoHTTP1, 8 << 10, 6 << 10}, {"idle-http2-4000", protoHTTP2, 12 << 10, 8 << 10}} {
		all = append(all, scenario{
			name: c.name, measure: tlsIdlers{c.proto}.measure, rounds: 6, large: true,
			bounds: []bound{{of: memory, require: c.require, aim: c.aim}, {of: memory, than: netHTTP},
				{of: memory, than: nginxTLS}},
		})
	}
	return all
}

// tlsIdlers are clients that send a request over TLS and then keep their connections open.
type tlsIdlers struct{ proto string }

// measure measures a server's memory while it has many of them.
func (i tlsIdlers) measure(f *field, server string) (values turn, err error) {
	path, flags := "/hello", []string{"-tls"}
	if server == nginxTLS {
		path, flags = "/", nil
	}
	r, err := f.start(server, nil, path, flags...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	var atRest, full usage
	time.Sleep(f.settle)
	atRest.read(r)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.(*net.TCPConn).SetLinger(0) // no port is kept in TIME_WAIT
			c.Close()
		}
	}()
	for range tlsCrowd {
		c, err := net.DialTimeout("tcp", r.Address, patience)
		if err != nil {
			return nil, err
		}
		held = append(held, c)
		if err := i.exchange(c, path); err != nil {
			return nil, fmt.Errorf("connection %d: %w", len(held), err)
		}
	}
	time.Sleep(f.settle)
	full.read(r)
	return turn{memory: float64(full.rss-atRest.rss) / tlsCrowd}, errors.Join(atRest.err, full.err)
}

// exchange sends a request and receives the response.
func (i tlsIdlers) exchange(c net.Conn, path string) error {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	tc := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{i.proto}})
	if err := tc.Handshake(); err != nil {
		return err
	}
	if got := tc.ConnectionState().NegotiatedProtocol; got != i.proto {
		return fmt.Errorf("negotiated %q, want %q", got, i.proto)
	}
	if i.proto == protoHTTP2 {
		return exchangeHTTP2(tc, path)
	}
	return exchangeHTTP1(tc, path)
}

// exchangeHTTP1 expects a response with a body that arrives in one record with its head.
func exchangeHTTP1(c *tls.Conn, path string) error {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return err
	}
	response := make([]byte, 4<<10)
	for got := 0; ; {
		n, err := c.Read(response[got:])
		if err != nil {
			return err
		}
		got += n
		if _, content, ok := bytes.Cut(response[:got], []byte("\r\n\r\n")); ok && len(content) > 0 {
			return nil
		}
	}
}

func exchangeHTTP2(c *tls.Conn, path string) error {
	var out, block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: "localhost"}, {Name: ":path", Value: path}} {
		if err := fields.WriteField(f); err != nil {
			return err
		}
	}
	framer := http2.NewFramer(&out, c)
	out.WriteString(http2.ClientPreface)
	err := errors.Join(framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: slices.Clone(block.Bytes()), EndHeaders: true, EndStream: true}))
	if err != nil {
		return err
	}
	if _, err := io.Copy(c, &out); err != nil {
		return err
	}
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		if h := f.Header(); h.StreamID == 1 && h.Type == http2.FrameData && h.Flags.Has(http2.FlagDataEndStream) {
			return nil
		}
	}
}
