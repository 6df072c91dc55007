// Command nethttp serves an application with Go's standard library: over HTTP or
// over FastCGI, on a port or on a unix socket, and HTTP over TLS if it has a certificate.
package main

import (
	"flag"
	"log"
	"net/http"
	"net/http/fcgi"
	"os"

	"github.com/tarehq/tare/internal/application"
)

func main() {
	log.SetFlags(0)
	site, err := application.FromFlags(flag.CommandLine, os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(site.Serve(http.Serve, fcgi.Serve, http.ServeTLS))
}
