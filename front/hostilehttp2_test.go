package front_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// hostileHTTP2 starts a server of HTTP/2 that responds to each request with frames, and counts its
// connections.
func hostileHTTP2(t *testing.T, usesTLS bool, frames func(id uint32) []byte) (addr string, dials *atomic.Int32) {
	dials = new(atomic.Int32)
	var config *tls.Config
	if usesTLS {
		s := httptest.NewUnstartedServer(nil)
		s.EnableHTTP2 = true
		s.StartTLS()
		defer s.Close()
		config = s.TLS.Clone()
	}
	return testkit.ServeTCP(t, func(nc net.Conn) {
		dials.Add(1)
		if usesTLS {
			nc = tls.Server(nc, config)
		}
		preface := make([]byte, len(wire.Preface))
		if _, err := io.ReadFull(nc, preface); err != nil {
			return
		}
		_, _ = nc.Write(wire.AppendSettings(nil))
		for {
			head := make([]byte, wire.FrameHeaderSize)
			if _, err := io.ReadFull(nc, head); err != nil {
				return
			}
			h, _ := wire.ParseFrameHeader(head)
			if _, err := io.CopyN(io.Discard, nc, int64(h.Length)); err != nil {
				return
			}
			if h.Type == wire.Headers {
				_, _ = nc.Write(frames(h.StreamID))
			}
		}
	}), dials
}

func hostileResponses() map[string]func(id uint32) []byte {
	head := func(id uint32, flags wire.Flags, fields ...string) []byte {
		b := wire.AppendStatus(wire.AppendHeaders(nil, id), 200)
		for i := 0; i < len(fields); i += 2 {
			b = wire.AppendField(b, fields[i], fields[i+1])
		}
		wire.AddFrameFlags(b, flags)
		return wire.EndBlock(b, 0, wire.MinMaxFrameSize)
	}
	return map[string]func(id uint32) []byte{
		"window": func(id uint32) []byte {
			return wire.AppendWindowUpdate(wire.AppendWindowUpdate(nil, id, wire.MaxWindow), id, wire.MaxWindow)
		},
		"goaway":  func(uint32) []byte { return wire.AppendGoAway(nil, 0, wire.NoError) },
		"refused": func(id uint32) []byte { return wire.AppendRSTStream(nil, id, wire.RefusedStream) },
		"silent":  func(uint32) []byte { return nil },
		"flood":   func(uint32) []byte { return bytes.Repeat(wire.AppendPing(nil, 0, [8]byte{}), 10_000) },
		"half":    func(id uint32) []byte { return head(id, 0)[:5] },
		"lengths": func(id uint32) []byte { return head(id, 0, "content-length", "1", "content-length", "2") },
		"signed":  func(id uint32) []byte { return head(id, 0, "content-length", "+3") },
		"upgrade": func(id uint32) []byte { return head(id, 0, "upgrade", "x") },
		"chunked": func(id uint32) []byte { return head(id, 0, "transfer-encoding", "chunked") },
	}
}

// A server that violates HTTP/2, or does not respond, costs each request one attempt and one
// connection. The other server of the group responds.
func TestHostileHTTP2UpstreamsCostOneAttempt(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	const requests = 3
	for name, frames := range hostileResponses() {
		for _, usesTLS := range []bool{false, true} {
			t.Run(fmt.Sprint(name, usesTLS), func(t *testing.T) {
				t.Parallel()
				hostile, dials := hostileHTTP2(t, usesTLS, frames)
				scheme, grpcScheme := "http", "grpc"
				if usesTLS {
					scheme, grpcScheme = "https", "grpcs"
				}
				conf := `
					proxy_read_timeout 200ms; grpc_read_timeout 200ms; proxy_http_version 2;
					proxy_next_upstream error timeout invalid_header non_idempotent;
					grpc_next_upstream error timeout invalid_header non_idempotent;
					location /proxy { proxy_pass %[1]s://two; } location /grpc { grpc_pass %[2]s://two; }
					location /alone { grpc_pass %[2]s://%[3]s; }`
				a := serveConf(t, fmt.Sprintf("upstream two { server %s max_fails=0; server %s max_fails=0 backup; }",
					hostile, startHTTP2(t, usesTLS)), fmt.Sprintf(conf, scheme, grpcScheme, hostile))
				for _, path := range []string{"/proxy", "/grpc"} {
					for range requests {
						if got := a.do("POST", path, nil); got.status != 200 {
							t.Errorf("%s: status %d", path, got.status)
						}
					}
				}
				want := 502
				if name == "silent" || name == "half" {
					want = 504
				}
				began := time.Now()
				if got := a.get("/alone"); got.status != want || time.Since(began) > maxWait/2 {
					t.Errorf("alone: status %d, want %d", got.status, want)
				}
				if n := dials.Load(); n > 2*requests+1 {
					t.Errorf("%d connections for %d requests", n, 2*requests+1)
				}
			})
		}
	}
}
