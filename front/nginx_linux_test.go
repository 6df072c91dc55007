package front_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit/programs"
)

// serveNginx serves a server block by a real nginx. DIR in it is a directory, which is returned.
func serveNginx(t testing.TB, outer, server string) (*testClient, string) {
	t.Helper()
	tool, dir := programs.Nginx(t), shortDir(t)
	conf := fmt.Sprintf(`daemon off; master_process off; pid DIR/pid; error_log DIR/error.log;
events {} http { access_log off; default_type text/plain;
client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/c;
%s server { listen unix:DIR/s; %s } }`, outer, server)
	name := filepath.Join(dir, "conf")
	must(t, os.WriteFile(name, []byte(strings.ReplaceAll(conf, "DIR", dir)), 0o600))
	programs.Start(t, "unix", filepath.Join(dir, "s"), tool.Env, tool.Bin, "-p", dir, "-c", name, "-e",
		filepath.Join(dir, "error.log"))
	return newTestClient(t, filepath.Join(dir, "s")), dir
}
