package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// http2Conf is a configuration that real nginx accepts, too. DIR is a directory.
const http2Conf = `daemon off; master_process off; pid DIR/pid; error_log DIR/error.log;
events {}
http {
	access_log off; client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f;
	uwsgi_temp_path DIR/u; scgi_temp_path DIR/c;
	%s
	server { listen unix:DIR/s http2; return 204; }
}
`

// serveHTTP2 serves a configuration by real nginx, or by a Server, and returns the socket.
func serveHTTP2(t *testing.T, byNginx bool, directives string) (socket string) {
	dir, err := os.MkdirTemp("/tmp", "tare") // the path of a socket must be short
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	name, socket := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "s")
	content := strings.ReplaceAll(fmt.Sprintf(http2Conf, directives), "DIR", dir)
	testkit.Must(t, os.WriteFile(name, []byte(content), 0o600))
	if byNginx {
		tool := programs.Nginx(t)
		programs.Start(t, "unix", socket, tool.Env, tool.Bin, "-p", dir, "-c", name,
			"-e", filepath.Join(dir, "error.log"))
		return socket
	}
	run(t, name, server.Options{})
	return socket
}

// requestHTTP2 sends a request with fields of the values. It returns the server's settings, and the
// status of the response, or 0 if the server ends the connection.
func requestHTTP2(t *testing.T, socket string, values ...string) (settings map[http2.SettingID]uint32, status int) {
	c, err := net.Dial("unix", socket)
	testkit.Must(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for name, value := range map[string]string{":method": "GET", ":scheme": "http", ":path": "/", ":authority": "a"} {
		_ = e.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	for i, value := range values {
		_ = e.WriteField(hpack.HeaderField{Name: "x-" + strconv.Itoa(i), Value: value})
	}
	_ = f.WriteSettings()
	_ = f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, EndStream: true, EndHeaders: true, BlockFragment: block.Bytes(),
	})
	settings = make(map[http2.SettingID]uint32)
	for {
		frame, err := f.ReadFrame()
		testkit.Must(t, err)
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			_ = frame.ForeachSetting(func(s http2.Setting) error {
				settings[s.ID] = s.Val
				return nil
			})
		case *http2.MetaHeadersFrame:
			status, _ = strconv.Atoi(frame.PseudoValue("status"))
			return settings, status
		case *http2.GoAwayFrame:
			return settings, 0
		}
	}
}

// Clients receive the settings that nginx sends, and their heads have the same limits. For a head
// over its limit nginx ends the connection. A window that is not configured is larger than nginx's.
func TestHTTP2DirectivesAreNginxs(t *testing.T) {
	for _, directives := range []string{
		"",
		"http2_max_concurrent_streams 7; http2_body_preread_size 128k;",
		"http2_max_concurrent_streams 1000; large_client_header_buffers 2 2k;",
		"large_client_header_buffers 4 512;",
		"http2_max_field_size 100; http2_max_header_size 100; http2_idle_timeout 1s; http2_recv_timeout 1s;",
	} {
		nginx, tare := serveHTTP2(t, true, directives), serveHTTP2(t, false, directives)
		want, _ := requestHTTP2(t, nginx)
		got, _ := requestHTTP2(t, tare)
		compared := []http2.SettingID{http2.SettingMaxConcurrentStreams}
		if strings.Contains(directives, "preread") {
			compared = append(compared, http2.SettingInitialWindowSize)
		}
		for _, id := range compared {
			if got[id] != want[id] {
				t.Errorf("%q: %v is %d, want %d", directives, id, got[id], want[id])
			}
		}
		heads := [][]int{
			{500}, {512}, {513}, {500, 500, 500}, {1000}, {1500, 1500}, {2048}, {2049}, {1500, 1500, 1500, 1500},
			{7000, 7000}, {8192}, {8193},
		}
		if directives == "" {
			heads = append(heads, make([]int, 600))
		}
		for _, sizes := range heads {
			for _, c := range []string{"~", "1"} { // in Huffman's code a digit has five bits
				var values []string
				for _, n := range sizes {
					values = append(values, strings.Repeat(c, n))
				}
				_, want := requestHTTP2(t, nginx, values...)
				_, got := requestHTTP2(t, tare, values...)
				if (got == 204) != (want == 204) || got != 204 && got != 431 {
					t.Errorf("%q: the status for %v times %s is %d, and nginx's %d", directives, sizes, c, got, want)
				}
			}
		}
	}
}

// The lines of a head of HTTP/1 have nginx's limit, too.
func TestLinesOfHeadsAreLimitedAsByNginx(t *testing.T) {
	for _, buffers := range []string{"", "large_client_header_buffers 4 2k;", "large_client_header_buffers 4 512;"} {
		directives := buffers + "server { listen unix:DIR/one; return 204; }"
		nginx, tare := serveHTTP2(t, true, directives), serveHTTP2(t, false, directives)
		for _, size := range []int{500, 2000, 2100, 8100, 8300} {
			long := strings.Repeat("x", size)
			for _, request := range []string{
				"GET /" + long + " HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: " + long + "\r\n\r\n",
			} {
				want, got := statusOf(t, nginx, request), statusOf(t, tare, request)
				if want == "400" {
					want = "431"
				}
				if got != want {
					t.Errorf("%q: %.10q with %d bytes gets %s, want %s", buffers, request, size, got, want)
				}
			}
		}
	}
}

// statusOf sends a request of HTTP/1 to the socket "one" beside another, and returns the status.
func statusOf(t *testing.T, socket, request string) string {
	c, err := net.Dial("unix", filepath.Join(filepath.Dir(socket), "one"))
	testkit.Must(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, request)
	line := make([]byte, len("HTTP/1.1 204"))
	if _, err := io.ReadFull(c, line); err != nil {
		t.Fatal(err)
	}
	return string(line[len("HTTP/1.1 "):])
}
