package nginxconf

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/conf"
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
	php := at(t, r, `\.php$`)
	if p := php.Proxy; p.To != "unix:/run/php/php-fpm.sock" || p.SplitPath == "" || p.ParamIndex != "index.php" ||
		len(p.Params) < 15 || len(php.Steps) != 1 || len(php.TryFiles) != 2 {
		t.Errorf("%+v, %+v", php, php.Proxy)
	}
	if cert := r.Config.Hosts[0].Listen[0].Certs; len(cert) != 1 ||
		cert[0] != (conf.CertFiles{Cert: "/etc/ssl/certs/ssl-cert-snakeoil.pem",
			Key: "/etc/ssl/private/ssl-cert-snakeoil.key"}) {
		t.Errorf("unexpected certificates %v", cert)
	}
	site := r.Config.Hosts[1]
	if len(site.Listen) != 2 || !site.Listen[1].Default || !site.Listen[1].IPv6Only || site.Listen[0].Addr != "*:80" ||
		site.Defaults.Files.Root != "/var/www/html" || len(site.Defaults.Files.Index) != 3 ||
		len(site.Defaults.Logs) != 1 {
		t.Errorf("%+v", site)
	}
}
