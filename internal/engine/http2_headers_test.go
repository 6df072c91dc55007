package engine_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// h2Frame returns an HTTP/2 frame.
func h2Frame(kind, flags byte, stream uint32, content string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(content))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), stream)
	return string(b) + content
}

// The time for a header section is limited, also while another stream is open, and however slowly
// CONTINUATION frames arrive.
func TestHTTP2EndlessHeadersEndConnection(t *testing.T) {
	const headers, settings, continuation, endStream, endHeaders = 1, 4, 9, 1, 4
	const headTime = 30 * time.Second   // the default
	const get = "\x82\x86\x84\x41\x01a" // GET http / with :authority a
	for name, test := range map[string]struct {
		open    bool // another stream is
		trickle bool
		last    string
		want    time.Duration
	}{
		"idle":          {false, false, h2Frame(headers, endStream, 1, get), headTime},
		"trickle":       {false, true, h2Frame(headers, endStream, 1, get), headTime},
		"open":          {true, false, h2Frame(headers, endStream, 3, get), headTime},
		"open, trickle": {true, true, h2Frame(headers, endStream, 3, get), headTime},
		"part of frame": {true, false, h2Frame(headers, endStream, 3, get)[:12], headTime},
	} {
		t.Run(name, func(t *testing.T) {
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			s := &http.Server{
				Protocols: protocols, IdleTimeout: time.Hour,
				HTTP2:   &http.HTTP2Config{SendPingTimeout: 45 * time.Second, PingTimeout: 15 * time.Second},
				Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
			}
			inBubble(t, s, func(t *testing.T, _ *engine.Server, c *testkit.MemConn) {
				text := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2Frame(settings, 0, 0, "")
				if test.open {
					text += h2Frame(headers, endStream|endHeaders, 1, get)
				}
				io.WriteString(c, text+test.last)
				start := time.Now()
				for closed := false; !closed && time.Since(start) < time.Hour; _, closed = c.Received() {
					if pass(time.Second); test.trickle {
						io.WriteString(c, h2Frame(continuation, 0, 1+2*map[bool]uint32{true: 1}[test.open],
							"\x40\x01a\x01b"))
					}
				}
				if elapsed := time.Since(start); elapsed > test.want+2*time.Second ||
					elapsed < test.want-2*time.Second {
					t.Error(fmt.Errorf("closed after %v, want %v", elapsed, test.want))
				}
			})
		})
	}
}
