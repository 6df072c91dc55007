package front_test

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// application is a FastCGI application that responds with its parameters and the length of its
// input. It counts connections.
func application(t testing.TB, conns func(), extra string) string {
	return testkit.ServeTCP(t, func(nc net.Conn) {
		if conns != nil {
			conns()
		}
		for {
			params, body, keep, err := testkit.ReadFastCGI(nc)
			if err != nil {
				return
			}
			params["(body)"] = fmt.Sprint(len(body))
			text, _ := json.Marshal(params)
			b := wire.AppendStream(nil, wire.Stderr, 1, []byte(extra))
			b = wire.AppendStream(b, wire.Stdout, 1, append([]byte("Content-Type: application/json\nX-A: b\n\n"),
				text...))
			b = wire.AppendStreamEnd(b, wire.Stdout, 1)
			if _, err = nc.Write(wire.AppendEnd(b, 1, wire.End{})); err != nil || !keep {
				return
			}
		}
	})
}

// A response to HEAD is not stored for GET, because the application sends no body for HEAD.
func TestFastCGIHeadIsNotStoredForGet(t *testing.T) {
	a := serveConf(t, "fastcgi_cache_path DIR/cache keys_zone=one:1m;", `fastcgi_cache one; fastcgi_cache_key $host$request_uri;
		fastcgi_cache_lock on; fastcgi_cache_valid 1m; add_header X-Cache $upstream_cache_status;
		fastcgi_param REQUEST_METHOD $request_method; fastcgi_param METHOD $request_method;
		location / { fastcgi_pass `+application(t, nil, "")+"; }")
	a.do("HEAD", "/x", nil).want(t, "MISS", 200, "")
	if got := a.get("/x"); got.header.Get("X-Cache") != "HIT" ||
		!strings.Contains(got.body, `"METHOD":"HEAD","REQUEST_METHOD":"GET"`) {
		t.Errorf("got %+v", got)
	}
}

// FastCGI connections are kept with KeepConn, and STDERR is logged.
func TestFastCGIConnectionsAreKept(t *testing.T) {
	for _, keep := range []bool{false, true} {
		conns := make(chan bool, 100)
		to := application(t, func() { conns <- true }, "PHP Warning: \x1b[31mred\n")
		log, kept := t.TempDir()+"/log", map[bool]string{true: "on", false: "off"}[keep]
		a := serveConf(t, "upstream up { server "+to+"; keepalive 2; keepalive_requests 3; }", "error_log "+log+
			"; fastcgi_keep_conn "+kept+"; location / { fastcgi_pass up; }")
		for range 6 {
			if got := a.get("/"); got.status != 200 {
				t.Fatal(got)
			}
		}
		want := 6
		if keep {
			want = 2
		}
		if len(conns) != want {
			t.Errorf("keep %v: %d connections, want %d", keep, len(conns), want)
		}
		if lines := awaitLines(t, log, 6); !strings.Contains(lines[0],
			`FastCGI sent in stderr: "PHP Warning: \x1b[31mred\n"`) || !strings.Contains(lines[0], "fastcgi://"+to) {
			t.Errorf("%q", lines[0])
		}
	}
}

// A text of fastcgi_catch_stderr is found also if it is split between records.
func TestSplitTextInStderrIsCaught(t *testing.T) {
	for want, parts := range map[int][]string{200: {"PHP Fatal", "Error"}, 502: {"PHP Fat", "a", "l error"}} {
		var records []byte
		for _, part := range parts {
			records = wire.AppendStream(records, wire.Stderr, 1, []byte(part))
		}
		records = wire.AppendStream(records, wire.Stdout, 1, []byte("Content-Type: text/plain\r\n\r\nhello"))
		records = wire.AppendEnd(wire.AppendStreamEnd(records, wire.Stdout, 1), 1, wire.End{})
		to := testkit.ServeTCP(t, func(nc net.Conn) {
			if _, _, _, err := testkit.ReadFastCGI(nc); err == nil {
				_, _ = nc.Write(records)
			}
		})
		a := serveConf(t, "", fmt.Sprintf(`location / { fastcgi_pass %s; fastcgi_catch_stderr Warning;
			fastcgi_catch_stderr "Fatal error"; }`, to))
		testkit.Equal(t, a.get("/").status, want, parts)
	}
}
