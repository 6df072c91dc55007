package front_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// A log counts every byte that a tunnel's client receives.
func TestTunnelBytesAreLogged(t *testing.T) {
	const size = 540_000
	to := rawUpstream(t, func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\nX-A: b\r\n\r\n"+pattern(size))
		}
	})
	name := filepath.Join(t.TempDir(), "log")
	p := upgrading(to)
	c := oneHost(conf.Location{Path: "/", Proxy: &p,
		Settings: &conf.Settings{Logs: []conf.Log{{Path: name, Format: "bytes"}}}})
	c.LogFormats = []conf.LogFormat{{Name: "bytes",
		Text: "$status $bytes_sent $body_bytes_sent $upstream_response_length"}}
	h := newFront(t, c, quiet())
	nc, err := net.Dial("unix", serveHandler(t, h).socket)
	must(t, err)
	defer nc.Close()
	must(t, nc.SetDeadline(time.Now().Add(maxWait)))
	fmt.Fprint(nc, "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
	got, err := io.Copy(io.Discard, nc)
	must(t, err)
	must(t, h.Close()) // which writes the log
	text, err := os.ReadFile(name)
	must(t, err)
	if want := fmt.Sprintf("101 %d %d 0\n", got, size); string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
}
