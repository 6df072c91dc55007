package nginxconf

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// Parse accepts the unmodified configuration of Debian's package.
func TestDebianConfigurationIsAccepted(t *testing.T) {
	fsys := fstest.MapFS{}
	etc := programs.Nginx(t).Etc
	for _, pattern := range []string{"*", "snippets/*", "sites-available/*"} {
		names, err := filepath.Glob(filepath.Join(etc, pattern))
		testkit.Must(t, err)
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil { // folders are not files
				relative, _ := filepath.Rel(etc, name)
				fsys["etc/nginx/"+filepath.ToSlash(relative)] = &fstest.MapFile{Data: b}
			}
		}
	}
	// a link, as the package installs it
	fsys["etc/nginx/sites-enabled/default"] = fsys["etc/nginx/sites-available/default"]
	fsys["etc/nginx/conf.d/php.conf"] = &fstest.MapFile{Data: []byte(`server {
		listen 8443 ssl;
		include snippets/snakeoil.conf;
		location ~ \.php$ { include snippets/fastcgi-php.conf; fastcgi_pass unix:/run/php/php-fpm.sock; }
		location / { include proxy_params; proxy_pass http://127.0.0.1:8080; }
	}`)}
	r, err := Parse("/etc/nginx/nginx.conf", Options{FS: fsys})
	testkit.Must(t, err)
	if len(r.Config.Hosts) != 2 || len(r.Warnings) != 0 || r.Config.Types["html"] != "text/html" ||
		len(r.Config.Types) < 50 {
		t.Errorf("%d hosts, %d types, %v", len(r.Config.Hosts), len(r.Config.Types), r.Warnings)
	}
}
