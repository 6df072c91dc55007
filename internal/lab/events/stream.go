package events

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/lab/proc"
)

// Protocols of streams.
const (
	SSE       = "sse"       // server-sent events, over HTTP/1.1
	Websocket = "websocket" // messages that are echoed
	GRPC      = "grpc"      // messages of one response, over HTTP/2 without TLS
)

const (
	timeDigits     = 20  // length of the time in an event, which is all of a token
	bufferBytes    = 512 // size of a client's buffer: some events
	streamsPerConn = 100 // how many gRPC streams share a connection
)

// stream is an open stream. next waits for an event and returns when it was written.
type stream struct {
	io.Closer
	next func() (written time.Duration, err error)
}

// monotonic returns the time of the machine's monotonic clock, which servers read, too.
func monotonic() time.Duration { return proc.Clock(unix.CLOCK_MONOTONIC) }

func parseEvent(text []byte) (time.Duration, error) {
	if len(text) != timeDigits {
		return 0, fmt.Errorf("event %q: want %d digits", text, timeDigits)
	}
	n, err := strconv.ParseUint(string(text), 10, 63)
	return time.Duration(n), err
}

// requestOn opens a connection, sends a request and returns the response, whose status is want. The
// connection ends with ctx.
func requestOn(ctx context.Context, address, target, fields string, want int) (
	conn net.Conn, resp *http.Response, in *bufio.Reader, err error) {
	if conn, err = new(net.Dialer).DialContext(ctx, "tcp", address); err != nil {
		return nil, nil, nil, err
	}
	in = bufio.NewReaderSize(conn, bufferBytes)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", target, fields)
	if err == nil {
		resp, err = http.ReadResponse(in, nil)
	}
	if err == nil && resp.StatusCode != want {
		err = errors.New(resp.Status)
	}
	if err != nil {
		stop()
		conn.Close()
		return nil, nil, nil, err
	}
	return conn, resp, in, nil
}

func openSSE(ctx context.Context, address, target string) (*stream, error) {
	conn, resp, _, err := requestOn(ctx, address, target, "", http.StatusOK)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(resp.Body, bufferBytes)
	return &stream{conn, func() (time.Duration, error) {
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				return 0, err
			}
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				return parseEvent(bytes.TrimSpace(data))
			}
		}
	}}, nil
}

// The handshake of websockets, with the key of RFC 6455, 1.3.
const (
	upgradeFields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	upgradeAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

// openWebsocket opens a websocket. Its next sends a message at the interval every, waits for the
// echo, and returns the time of the round trip.
func openWebsocket(ctx context.Context, address string, every time.Duration) (*stream, error) {
	conn, resp, in, err := requestOn(ctx, address, "/", upgradeFields, http.StatusSwitchingProtocols)
	if err != nil {
		return nil, err
	}
	if resp.Header.Get("Sec-WebSocket-Accept") != upgradeAccept {
		conn.Close()
		return nil, errors.New("wrong Sec-WebSocket-Accept")
	}
	wait, frame := time.Duration(0), make([]byte, 2+timeDigits)
	return &stream{conn, func() (time.Duration, error) {
		if !pause(ctx, wait) {
			return 0, ctx.Err()
		}
		if wait == 0 {
			wait = rand.N(every) // clients do not send at the same time
		} else {
			wait = every
		}
		if _, err := conn.Write(appendMessage(nil, monotonic())); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(in, frame); err != nil {
			return 0, err
		}
		return parseEvent(frame[2:])
	}}, nil
}

// appendMessage appends a masked text frame with a time (RFC 6455, 5.2).
func appendMessage(b []byte, t time.Duration) []byte {
	const text, masked = 0x81, 0x80
	mask := rand.Uint32()
	b = append(b, text, masked|timeDigits, byte(mask), byte(mask>>8), byte(mask>>16), byte(mask>>24))
	head := len(b)
	b = fmt.Appendf(b, "%0*d", timeDigits, t)
	for i := range b[head:] {
		b[head+i] ^= byte(mask >> (8 * (i % 4)))
	}
	return b
}

// grpcConn is a connection that several streams share. The first of them opens it.
type grpcConn struct {
	http.Transport
	once sync.Once
}

func newGRPCConn() *grpcConn {
	c := &grpcConn{Transport: http.Transport{Protocols: new(http.Protocols)}}
	c.Protocols.SetUnencryptedHTTP2(true)
	return c
}

func (c *grpcConn) open(ctx context.Context, address, target string) (*stream, error) {
	const empty = "\x00\x00\x00\x00\x00" // a message of no bytes, after its length
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+target, bytes.NewReader([]byte(empty)))
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	var resp *http.Response
	c.once.Do(func() { resp, err = c.RoundTrip(r) })
	if resp == nil && err == nil {
		resp, err = c.RoundTrip(r)
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s", resp.Proto, resp.Status)
	}
	message := make([]byte, len(empty)+timeDigits)
	return &stream{resp.Body, func() (time.Duration, error) {
		if _, err := io.ReadFull(resp.Body, message); err != nil {
			return 0, err
		}
		return parseEvent(message[len(empty):])
	}}, nil
}
