package front_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// serveTare serves a server block by tare's own server, and returns its socket.
func serveTare(t *testing.T, outer, block string) string {
	t.Helper()
	return serveByTare(t, newFront(t, parseConf(t, outer, block))).socket
}

// Without buffering, the part of a body that has arrived is in the same write as the head, and the end
// of the body in that of its last bytes: END_STREAM is a flag of their frame.
func TestPiecesAreSentWithWhatTheyFollow(t *testing.T) {
	testkit.Long(t, "it compares with nginx")
	const block = `location / { proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://%[1]s; }
		location /fcgi { fastcgi_request_buffering off; fastcgi_pass %[1]s; }
		location /grpc { grpc_pass %[1]s; }`
	reads := make(chan string)
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		for b := make([]byte, 64<<10); ; {
			n, err := nc.Read(b)
			select {
			case reads <- string(b[:n]):
			case <-t.Context().Done():
				return
			}
			if err != nil {
				return
			}
			if strings.HasPrefix(string(b[:n]), wire.Preface) {
				_, _ = nc.Write(wire.AppendSettings(nil))
			}
		}
	})
	data := func(flags wire.Flags, content string) string {
		return string(wire.AppendFrameHeader(nil, wire.FrameHeader{Length: uint32(len(content)), Type: wire.Data,
			Flags: flags, StreamID: 1})) + content
	}
	const fields, last = " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n", "3\r\nend\r\n0\r\n\r\n"
	const sized = " HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nbegin"
	const beginRequest, endOfBody = "\x01\x01\x00\x01", "\x01\x05\x00\x01\x00\x00\x00\x00" // records
	head := wire.AppendRequest(wire.AppendHeaders(nil, 1), &wire.RequestFields{Method: http.MethodPost,
		Scheme: "http", Authority: "x", Path: "/grpc"})
	http2 := wire.Preface + string(wire.AppendSettings(nil)) + string(wire.EndBlock(head, 0, wire.MinMaxFrameSize))
	for name, start := range map[string]func() (socket, http2Socket string){
		"tare": func() (string, string) {
			socket := serveTare(t, "", fmt.Sprintf(block, to))
			return socket, socket
		},
		"nginx": func() (string, string) {
			_, dir := serveNginx(t, "", "listen unix:DIR/2 http2; "+fmt.Sprintf(block, to))
			return filepath.Join(dir, "s"), filepath.Join(dir, "2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			socket, http2Socket := start()
			for _, test := range []struct{ socket, first, second, before, after string }{ // beside the pieces
				{socket, "POST /" + sized, "end", "POST / ", ""},
				{socket, "POST /" + fields, last, "POST / ", last},
				{socket, "POST /fcgi" + sized, "end", beginRequest, endOfBody},
				{socket, "POST /fcgi" + fields, last, "", endOfBody},
				{socket, "POST /grpc" + fields, last, "", data(wire.EndStream, "end")[:5]}, // without the stream
				{http2Socket, http2 + data(0, "begin"), data(wire.EndStream, "end"), "", data(wire.EndStream, "end")[:5]},
			} {
				nc := dial(t, "unix", test.socket, "")
				for _, part := range [][3]string{{test.first, "begin", test.before}, {test.second, "end", test.after}} {
					testkit.Send(t, nc, part[0])
					var got string
					for !strings.Contains(got, part[1]) {
						got = <-reads
					}
					if !strings.Contains(got, part[2]) {
						t.Errorf("%.11q: %s is in %q, without %q", test.first, part[1], got, part[2])
					}
				}
				nc.Close()
			}
		})
	}
}
