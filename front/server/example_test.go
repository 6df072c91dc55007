package server_test

import (
	"context"
	"io"
	"log"
	"net/http"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/server"
)

// A program serves an nginx.conf, in which "proxy_pass http://app" calls its handler. It opens the
// addresses of the file, serves its certificates, and reloads on SIGHUP.
func Example() {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello from the program\n")
	})
	log.Fatal(server.Run(context.Background(), server.File{Path: "nginx.conf"}, server.Options{},
		server.Bind("app", app)))
}

// A program without an nginx.conf has its certificate issued, and renewed while it serves.
func Example_certificates() {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) })
	config := &server.Config{Name: "app", Front: conf.Config{
		Issuers: []conf.Issuer{{Name: "letsencrypt", Directory: "https://acme-v02.api.letsencrypt.org/directory",
			Contacts: []string{"mailto:admin@example.org"}, AcceptTerms: true, StateDir: "/var/lib/app/acme"}},
		Hosts: []conf.Host{
			{Listen: []conf.Listen{{Addr: "*:80"}}, // for the challenge
				Steps: []conf.Step{conf.Return{Status: http.StatusNotFound}}},
			{Names: []string{"example.org"}, Listen: []conf.Listen{{Addr: "*:443", TLS: true, HTTP2: true,
				Issued: &conf.Issued{Issuer: "letsencrypt", Names: []string{"example.org"}}}},
				Locations: []conf.Location{{Path: "/", Proxy: &conf.Proxy{To: "app"}}}},
		},
	}}
	log.Fatal(server.Run(context.Background(), config, server.Options{}, server.Bind("app", app)))
}
