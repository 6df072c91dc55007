// Command tare serves an application with tare: the same handler as net/http's, over
// HTTP or over FastCGI, on a port or on a unix socket.
package main

import (
	"log"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/contenders/application"
	"github.com/tarehq/tare/fcgi"
)

func main() {
	log.SetFlags(0)
	site, err := application.FromFlags()
	if err != nil {
		log.Fatal(err)
	}
	serve := tare.Serve
	if site.FastCGI {
		serve = fcgi.Serve
	}
	log.Fatal(serve(site.Listener, site.Handler))
}
