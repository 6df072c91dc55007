// Command nethttp serves an application with Go's standard library: over HTTP or
// over FastCGI, on a port or on a unix socket, and HTTP over TLS if it has a certificate.
package main

import (
	"log"
	"net"
	"net/http"
	"net/http/fcgi"

	"github.com/tarehq/tare/contenders/application"
)

func main() {
	log.SetFlags(0)
	site, err := application.FromFlags()
	if err != nil {
		log.Fatal(err)
	}
	serve := http.Serve
	switch {
	case site.FastCGI:
		serve = fcgi.Serve
	case site.Cert != "":
		serve = func(l net.Listener, h http.Handler) error { return http.ServeTLS(l, h, site.Cert, site.Key) }
	}
	log.Fatal(serve(site.Listener, site.Handler))
}
