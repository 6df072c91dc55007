// Command tare serves an application with tare: the same handler as net/http's, over
// HTTP or over FastCGI, on a port or on a unix socket, and HTTP over TLS if it has a certificate.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/application"
)

func main() {
	log.SetFlags(0)
	site, err := application.FromFlags(flag.CommandLine, os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(site.Serve(tare.Serve, fcgi.Serve, tare.ServeTLS))
}
