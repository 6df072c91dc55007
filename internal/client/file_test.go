package client

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// BenchmarkFileBody sends a file: by the kernel, and through a reader of another type.
func BenchmarkFileBody(b *testing.B) {
	for _, size := range []int64{256 << 10, 10 << 20} {
		name := filepath.Join(b.TempDir(), "file")
		testkit.Must(b, os.WriteFile(name, make([]byte, size), 0o600))
		for _, how := range []string{"file", "reader"} {
			b.Run(fmt.Sprintf("%s-%dKB", how, size>>10), func(b *testing.B) {
				to := testkit.ServeTCP(b, func(c net.Conn) { discard(c, size) })
				c := New(&Config{})
				defer c.CloseIdleConnections()
				b.SetBytes(size)
				for b.Loop() {
					f := testkit.Value(os.Open(name))(b)
					r := testkit.Value(http.NewRequest(http.MethodPut, "http://"+to, f))(b)
					if r.ContentLength = size; how == "reader" {
						r.Body = struct{ io.ReadCloser }{f}
					}
					resp := testkit.Value(c.RoundTrip(r))(b)
					_ = resp.Body.Close()
				}
			})
		}
	}
}

// discard responds to requests of a given size, and ignores their content.
func discard(c net.Conn, size int64) {
	for br := bufio.NewReaderSize(c, 64<<10); ; {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, br, size); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}
