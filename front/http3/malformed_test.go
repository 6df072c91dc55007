package http3_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/tarehq/tare/front/http3"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// The requests that quic-go rejects are those that isMalformed expects it to reject.
func TestMalformedRequestsAreThoseOfQUICGo(t *testing.T) {
	testkit.Long(t, "it compares many requests")
	t.Parallel()
	s := serve(t, `server { listen ADDR quic; location / { proxy_pass http://app; } }`,
		server.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "served")
		})))
	for _, head := range []string{
		"", ":method", ":method GET", ":method  :path / :authority a :scheme https",
		":method GET :path / :authority a :scheme https",
		":method GET :path / :authority a", ":method GET :path / :scheme https",
		":method GET :path / :scheme https host a", ":method GET :path / :scheme HTTPS host a",
		":method GET :path / :scheme x host a", ":method GET :path / host a",
		":method GET :path / :authority a :scheme https host a",
		":method GET :path / :authority a :scheme https host b",
		":method GET :path / :authority a :scheme https host a host a",
		":method GET :path / :authority u@a :scheme https", ":method GET :path / :authority u@a :scheme x",
		":method GET :path /%zz :authority a :scheme https", ":method GET :path x :authority a :scheme https",
		":method GET :path * :authority a :scheme https", ":method OPTIONS :path * :authority a :scheme https",
		":method GET :path  :authority a :scheme https", ":method G/T :path / :authority a :scheme https",
		":method get :path / :authority a :scheme https", ":method GET :method GET :path / :authority a :scheme https",
		":method GET :path / :authority a :scheme https :status 200",
		":method GET :path / :authority a :scheme https :new x",
		":method GET :path / :authority a x y :scheme https",
		":method GET :path / :authority a :scheme https te trailers",
		":method GET :path / :authority a :scheme https te gzip",
		":method GET :path / :authority a :scheme https upgrade h2c",
		":method POST :path / :authority a :scheme https content-length 0",
		":method POST :path / :authority a :scheme https content-length ",
		":method POST :path / :authority a :scheme https content-length 0 content-length 0",
		":method POST :path / :authority a :scheme https content-length 0 content-length 1",
		":method POST :path / :authority a :scheme https content-length -1",
		":method POST :path / :authority a :scheme https content-length 9223372036854775808",
		":method CONNECT :authority a:1", ":method CONNECT", ":method CONNECT :authority a:1 :scheme https",
		":method CONNECT :authority a:1 :path /", ":method CONNECT host a:1",
		":method CONNECT :authority a :scheme https :path / :protocol websocket",
		":method CONNECT :authority a :scheme https :path / :protocol a/b",
		":method CONNECT :authority a :path / :protocol websocket",
		":method CONNECT :authority a :scheme https :path x :protocol websocket",
		":method CONNECT :authority a:1 :protocol ",
		":method GET :authority a :scheme https :path / :protocol websocket",
	} {
		fields := strings.Split(head, " ")
		if len(fields)%2 != 0 {
			fields = append(fields, "")
		}
		q, err := s.dial(quic.Config{})
		testkit.Must(t, err)
		isRejected := s.send(q, headOf(fields...)) == ""
		if got := http3.IsMalformed(fields...); got != isRejected {
			t.Errorf("%q: malformed: %t, rejected by quic-go: %t", head, got, isRejected)
		}
		_ = q.CloseWithError(0, "")
	}
}
