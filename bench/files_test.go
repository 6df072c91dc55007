package bench_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// File servers.
const (
	serve      = "tare-serve"
	serveTLS   = "tare-serve-tls"
	nginxFiles = "nginx-files"
	nginxTLS   = "nginx-files-tls"
	netFiles   = "files-nethttp"
	fastFiles  = "files-fasthttp"
)

func servesFiles(server string) bool {
	return strings.Contains(server, "files") || server == serve || server == serveTLS
}

// smallFiles is the number of small files.
const smallFiles = 10_000

// nginxForFiles makes nginx keep files open.
const nginxForFiles = `include {{.Etc}}/mime.types;
sendfile on;
tcp_nopush on;
open_file_cache max=20000 inactive=60s;
open_file_cache_valid 60s;
open_file_cache_errors on;
server {
	listen 127.0.0.1:{{.Port}}{{with .Setting "keys"}} ssl http2{{end}};
	{{with .Setting "keys"}}ssl_certificate {{.}}/cert.pem; ssl_certificate_key {{.}}/key.pem; ssl_protocols TLSv1.3;{{end}}
	root {{.Setting "root"}};
}
`

// files returns the cases of files. The files are in the kernel's memory in all cases except one.
func files() []scenario {
	page := func(connections int) scene {
		return scene{cores: 1, streams: []stream{{path: "/", connections: connections}}}
	}
	small := scene{cores: 1, streams: []stream{
		{path: fmt.Sprintf("/small/{{random 0 %d}}.html", smallFiles-1), connections: 32},
	}}
	large := scene{cores: 1, streams: []stream{{path: "/10m.bin", connections: 8}}}
	likeNginx := []bound{{of: cpu, than: nginxFiles, require: 1.05, aim: 0.95}, {of: cpu, than: netFiles, require: 0.5},
		{of: cpu, than: fastFiles}}
	return []scenario{
		{name: "file-32", subject: serve, scene: page(32), bounds: likeNginx},
		{name: "file-1000", subject: serve, scene: page(1000), bounds: likeNginx},
		{name: "file-10mb", subject: serve, scene: large, bounds: []bound{
			{of: sent, than: nginxFiles, require: 1, least: true}, {of: sent, than: netFiles, least: true},
		}},
		{name: "files-10000", subject: serve, scene: small,
			bounds: []bound{{of: cpu, than: nginxFiles, require: 1.1}, {of: cpu, than: fastFiles}}},
		{name: "file-tls", subject: serveTLS, measure: filesOverTLS,
			bounds: []bound{{of: cpu, than: nginxTLS, require: 1.2}}},
	}
}

// filesOverTLS loads a server over TLS.
func filesOverTLS(f *field, server string) (values turn, err error) {
	r, err := f.start(server, f.server, "/")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return f.loadByWrk(r, "https://"+r.Address+"/")
}

// prepareFiles makes the site and builds its servers.
func (f *field) prepareFiles(t testing.TB) {
	t.Helper()
	root := programs.Root(t)
	folder, err := os.MkdirTemp("", "bench-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(folder) })
		err = os.Chmod(folder, 0o755) // nginx's worker runs as another user
	}
	f.site = filepath.Join(folder, "site")
	if err := errors.Join(err, contender.MakeSite(filepath.Join(root, "contenders", "site"), f.site, smallFiles),
		makeKeys(t, folder)); err != nil {
		t.Fatal(err)
	}
	conf := oneWorker(nginxForFiles)
	keys := "-c " + filepath.Join(folder, "cert.pem") + " -k " + filepath.Join(folder, "key.pem")
	listen := " --listen 127.0.0.1:{port} "
	f.build(t, serve, root, "go build -o {bin} ./cmd/tare", "{bin} serve"+listen+f.site)
	f.build(t, serveTLS, root, "go build -o {bin} ./cmd/tare", "{bin} serve "+keys+listen+f.site)
	f.build(t, netFiles, filepath.Join(root, "contenders", "nethttp"), "go build -o {bin} .",
		"{bin} -application files -listen 127.0.0.1:{port}")
	f.build(t, fastFiles, filepath.Join(root, "contenders", fastFiles), "go build -o {bin} .",
		"{bin} -listen 127.0.0.1:{port}")
	for name, set := range map[string]map[string]string{
		nginxFiles: {"root": f.site}, nginxTLS: {"root": f.site, "keys": folder},
	} {
		spec := &contender.Spec{Name: name, Title: name, Protocol: contender.HTTP, Front: contender.Nginx, Set: set}
		f.contenders[name] = &contender.Contender{Spec: spec, Nginx: programs.Nginx(t), Conf: conf}
	}
}

// build builds a server that runs in the site's folder.
func (f *field) build(t testing.TB, name, dir, build, run string) {
	t.Helper()
	tools := &contender.Tools{Cache: t.TempDir()}
	c, err := tools.Prepare(context.Background(), &contender.Spec{
		Name: name, Title: name, Dir: dir, Protocol: contender.HTTP, Needs: []string{contender.Go},
		Build: build, Run: run, Folder: f.site,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.contenders[name] = c
}

// file returns the path that a stream requests, and the expected body.
func (f *field) file(path string) (request string, want []byte, err error) {
	if before, _, isTemplate := strings.Cut(path, "{{"); isTemplate {
		path = before + "0.html"
	}
	name := path
	if path == "/" {
		name = "index.html"
	}
	want, err = os.ReadFile(filepath.Join(f.site, name))
	return path, want, err
}

// makeKeys writes a self-signed certificate and its key.
func makeKeys(t testing.TB, dir string) error {
	cert, key := testkit.SelfSign(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	return errors.Join(os.WriteFile(filepath.Join(dir, "cert.pem"), cert, 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), key, 0o600))
}
