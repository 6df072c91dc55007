package front_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// serveNginx serves a server block by a real nginx. DIR in it is a directory, which is returned.
func serveNginx(t testing.TB, outer, server string) (*testClient, string) {
	t.Helper()
	dir := testkit.ShortDir(t)
	socket := filepath.Join(dir, "s")
	startNginx(t, "unix", socket, dir, "default_type text/plain; "+outer+" server { listen unix:DIR/s; "+server+" }")
	return newTestClient(t, socket), dir
}

// startNginx serves an http block by a real nginx at an address. DIR in it is a directory.
func startNginx(t testing.TB, network, addr, dir, http string) {
	t.Helper()
	tool, name := programs.Nginx(t), filepath.Join(dir, "conf")
	const head = `daemon off; master_process off; pid DIR/pid; error_log DIR/error.log; events {}
http { access_log off; client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/c;
`
	testkit.Must(t, os.WriteFile(name, []byte(strings.ReplaceAll(head+http+"\n}", "DIR", dir)), 0o600))
	programs.Start(t, network, addr, tool.Env, tool.Bin, "-p", dir, "-c", name, "-e", filepath.Join(dir, "error.log"))
}
