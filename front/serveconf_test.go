package front_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf"
)

// parseConf reads a configuration with a server block. DIR in it is a directory.
func parseConf(t testing.TB, outer, server string, bound ...string) conf.Config {
	t.Helper()
	dir := shortDir(t)
	text := fmt.Sprintf("events {} http { access_log off; default_type text/plain; %s server { listen 80; %s } }", outer,
		server)
	name := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(name, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
	read, err := nginxconf.Parse(name, nginxconf.Options{Prefix: dir, Bound: bound})
	must(t, err)
	return read.Config
}

// serveConf serves a server block by a Handler.
func serveConf(t testing.TB, outer, server string, options ...front.Option) *testClient {
	t.Helper()
	return serveHandler(t, newFront(t, parseConf(t, outer, server), options...))
}

// besideNginx serves a server block by a real nginx and by a Handler.
func besideNginx(t testing.TB, outer, server string) (nginx, tare *testClient) {
	t.Helper()
	nginx, _ = serveNginx(t, outer, server)
	return nginx, serveConf(t, outer, server)
}
