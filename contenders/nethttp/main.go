// Command nethttp serves an application with Go's standard library: over HTTP or
// over FastCGI, on a port or on a unix socket.
package main

import (
	"log"
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
	if site.FastCGI {
		serve = fcgi.Serve
	}
	log.Fatal(serve(site.Listener, site.Handler))
}
