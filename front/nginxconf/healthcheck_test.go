package nginxconf

import (
	"strings"
	"testing"
	"testing/fstest"
)

// Servers of other protocols would fail the requests of checks, and so get no others.
func TestHealthCheckRequiresProxyPass(t *testing.T) {
	for pass, ok := range map[string]bool{
		"proxy_pass http://u;": true, "proxy_http_version 2; proxy_pass http://u;": true,
		"grpc_pass u;": false, "fastcgi_pass u;": false, "": false,
	} {
		text := "events {} http { upstream u { server 127.0.0.1:1; } server { listen 80; location / { " + pass +
			" health_check; } } }"
		_, err := Parse("nginx.conf", Options{FS: fstest.MapFS{"nginx.conf": {Data: []byte(text)}}, DefaultPort: 80})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "requires proxy_pass") {
			t.Errorf("%q: %v", pass, err)
		}
	}
}

// A health check has one port.
func TestHealthCheckParameters(t *testing.T) {
	for params, ok := range map[string]bool{
		"port=81": true, "port=81-82": false, "port=0": false, "port=65536": false, "port": false,
		"fails=1": true, "fails=0": false, "match=none": false, "mandatory=on": false,
	} {
		text := "events {} http { server { listen 80; location / { proxy_pass http://127.0.0.1:1; health_check " +
			params + "; } } }"
		_, err := Parse("nginx.conf", Options{FS: fstest.MapFS{"nginx.conf": {Data: []byte(text)}}, DefaultPort: 80})
		if (err == nil) != ok {
			t.Errorf("%s: %v", params, err)
		}
	}
}
