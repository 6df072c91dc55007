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
)

// BenchmarkFileBody sends a file: by the kernel, and through a reader of another type.
func BenchmarkFileBody(b *testing.B) {
	for _, size := range []int64{256 << 10, 10 << 20} {
		name := filepath.Join(b.TempDir(), "file")
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			b.Fatal(err)
		}
		for _, how := range []string{"file", "reader"} {
			b.Run(fmt.Sprintf("%s-%dKB", how, size>>10), func(b *testing.B) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				go discard(l, size)
				c := New(&Config{})
				defer c.CloseIdleConnections()
				b.SetBytes(size)
				for b.Loop() {
					f, err := os.Open(name)
					if err != nil {
						b.Fatal(err)
					}
					r, err := http.NewRequest(http.MethodPut, "http://"+l.Addr().String(), f)
					if err != nil {
						b.Fatal(err)
					}
					if r.ContentLength = size; how == "reader" {
						r.Body = struct{ io.ReadCloser }{f}
					}
					resp, err := c.RoundTrip(r)
					if err != nil {
						b.Fatal(err)
					}
					_ = resp.Body.Close()
				}
			})
		}
	}
}

// discard responds to requests of a given size, and ignores their content.
func discard(l net.Listener, size int64) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for br := bufio.NewReaderSize(c, 64<<10); ; {
				if _, err := http.ReadRequest(br); err != nil {
					return
				}
				if _, err := io.CopyN(io.Discard, br, size); err != nil {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}()
	}
}
