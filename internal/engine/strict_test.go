package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// A large unread body ends its connection and uses no memory.
func TestLargeUnreadBodyEndsConnection(t *testing.T) {
	for _, size := range []int{1000, 200 << 10, 300 << 10} {
		for _, framing := range []string{"length", "chunks"} {
			t.Run(fmt.Sprint(framing, size), func(t *testing.T) {
				inBubble(t, &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
					func(t *testing.T, s *engine.Server, c *testkit.MemConn) {
						body := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
						if framing == "chunks" {
							body = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size,
								strings.Repeat("x", size))
						}
						go io.WriteString(c, "POST / HTTP/1.1\r\n"+host+body+get)
						pass(2 * time.Second)
						b, closed := c.Received()
						kept := size < 256<<10
						if strings.Count(string(b), "200 OK") == 2 != kept || closed == kept {
							t.Errorf("closed=%v %q", closed, b)
						}
					})
			})
		}
	}
}
