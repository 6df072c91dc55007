package http3_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// appendInteger appends an integer with a prefix (RFC 7541, 5.1), whose first byte has other bits.
func appendInteger(b []byte, bits byte, prefix, n int) []byte {
	most := 1<<prefix - 1
	if n < most {
		return append(b, bits|byte(n))
	}
	b = append(b, bits|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// headOf returns the HEADERS frame of fields, which are names and values.
func headOf(fields ...string) string {
	block := []byte{0, 0} // RFC 9204, 4.5.1: no dynamic table
	for i := 0; i < len(fields); i += 2 {
		block = append(appendInteger(block, 0x20, 3, len(fields[i])), fields[i]...) // RFC 9204, 4.5.6
		block = append(appendInteger(block, 0, 7, len(fields[i+1])), fields[i+1]...)
	}
	return string(quicvarint.Append(quicvarint.Append(nil, 1), uint64(len(block)))) + string(block)
}

// getOf returns the HEADERS frame of a GET request for a path, with more fields.
func getOf(path string, fields ...string) string {
	return headOf(append([]string{":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", path},
		fields...)...)
}

// send opens a stream and sends a text. The result is what the server sends.
func (s *site) send(q *quic.Conn, text string) (response string) {
	s.Helper()
	stream, err := q.OpenStream()
	if err == nil {
		err = stream.SetReadDeadline(time.Now().Add(patience))
	}
	testkit.Must(s, err)
	_, _ = io.WriteString(stream, text) // the server may not want all of it
	stream.Close()
	b, _ := io.ReadAll(stream) // the error is that of the stream
	return string(b)
}

// Each request has one line in the access log, also if quic-go rejects it without a handler.
func TestRejectedRequestsAreLogged(t *testing.T) {
	t.Parallel()
	s := serve(t, `log_format test '$status "$request" $host "$http_user_agent" $http3 $remote_addr';
		large_client_header_buffers 4 8k;
		server { listen ADDR quic; server_name localhost; access_log DIR/access.log test; root DIR;
		location /text { return 200 text; } location /app { proxy_pass http://app; } }`,
		server.Bind("app", http.HandlerFunc(describe)))
	var want []string
	for _, c := range []struct{ sent, want string }{
		{getOf("/text", "user-agent", "good"), `200 "GET /text HTTP/3.0" localhost "good"`},
		{getOf("/text?trailer") + headOf("x-sum", "1"), `200 "GET /text?trailer HTTP/3.0" localhost "-"`},
		{getOf("/app?trailer") + "\x00\x02ab" + headOf("x-sum", "1"), `200 "GET /app?trailer HTTP/3.0" localhost "-"`},
		{getOf("/upper", "user-agent", "bad", "X-Upper", "x"), `400 "GET /upper HTTP/3.0" localhost "bad"`},
		{getOf("/value", "x", "a\nb"), `400 "GET /value HTTP/3.0" localhost "-"`},
		{getOf("/connection", "connection", "close"), `400 "GET /connection HTTP/3.0" localhost "-"`},
		{getOf("/length", "content-length", "1x"), `400 "GET /length HTTP/3.0" localhost "-"`},
		{getOf("/hosts", "host", "other"), `400 "GET /hosts HTTP/3.0" localhost "-"`},
		{headOf(":method", "GET", ":scheme", "https", ":authority", "localhost"), `400 "" localhost "-"`},
		{headOf(":method", "GET", "x", "y", ":path", "/late", ":authority", "localhost"),
			`400 "GET /late HTTP/3.0" localhost "-"`},
		{"\x01\x03\x00\x00\xff", `400 "" localhost "-"`},     // QPACK
		{"\x01\x40\x64\x00\x00\xd1", `400 "" localhost "-"`}, // ends early
		{getOf("/large", "x", strings.Repeat("x", 100<<10)), `431 "" localhost "-"`},
		{getOf("/text?field", "x", strings.Repeat("x", 8<<10)), `200 "GET /text?field HTTP/3.0" localhost "-"`},
		{getOf("/text?field", "x", strings.Repeat("x", 8<<10+1)), `431 "GET /text?field HTTP/3.0" localhost "-"`},
		{getOf("/many", slices.Repeat([]string{"x", "y"}, 2000)...), `431 "GET /many HTTP/3.0" localhost "-"`},
	} {
		q, err := s.dial(quic.Config{})
		testkit.Must(t, err)
		response := s.send(q, c.sent)
		if hasResponse := c.want[:3] != "400"; hasResponse != (response != "") {
			t.Errorf("%s: received %q", c.want, response)
		}
		want = append(want, c.want+" h3 127.0.0.1")
		_ = q.CloseWithError(0, "")
	}
	s.run.Drain()
	<-s.ended
	b, err := os.ReadFile(filepath.Join(s.dir, "access.log"))
	testkit.Must(t, err)
	got := strings.Split(strings.TrimSpace(string(b)), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A request that is rejected on a connection that goes on is logged soon.
func TestRejectedRequestIsLoggedSoon(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	s := serve(t, `log_format test '$status $request_uri'; server { listen ADDR quic; access_log DIR/access.log test;
		return 200 text; }`)
	q, err := s.dial(quic.Config{})
	testkit.Must(t, err)
	s.send(q, getOf("/bad", "Upper", "x"))
	for range 40 { // more than wait
		s.send(q, getOf("/bad", "upper", "\x00"))
		s.send(q, getOf("/good"))
	}
	testkit.WaitFor(s, "81 lines", func() bool {
		b, _ := os.ReadFile(filepath.Join(s.dir, "access.log"))
		return strings.Count(string(b), "400 /bad\n") == 41 && strings.Count(string(b), "200 /good\n") == 40
	})
	if err := q.Context().Err(); err != nil {
		t.Errorf("the connection has ended: %v", err)
	}
}
