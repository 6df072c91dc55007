package http3_test

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// A client with another implementation of QUIC, HTTP/3 and QPACK is served, also after Retry.
func TestAIOQUICIsServed(t *testing.T) {
	t.Parallel()
	python, env := programs.AIOQUIC(t)
	for _, retry := range []string{"off", "on"} {
		s := serve(t, `server { listen ADDR quic; quic_retry `+retry+`; location / { proxy_pass http://app; }
			location /text { return 200 "$request_method $http3 $remote_addr"; } }`,
			server.Bind("app", http.HandlerFunc(describe)))
		_, port, _ := net.SplitHostPort(s.addr)
		for _, c := range []struct{ method, path, body, want string }{
			{"GET", "/text", "", "200 GET h3 127.0.0.1"},
			{"GET", "/app", "", `200 GET /app "app" 0 []  0 <nil>`},
			{"POST", "/app", strings.Repeat("b", 100000), `200 POST /app "app" -1 []  100000 <nil>`},
		} {
			cmd := testkit.Command(t, python, "testdata/client.py", port, c.method, c.path, c.body)
			cmd.Env = append(os.Environ(), env...)
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
				t.Errorf("retry %s, %s %s: got %q, %v; want %q", retry, c.method, c.path, got, err, c.want)
			}
		}
	}
}
