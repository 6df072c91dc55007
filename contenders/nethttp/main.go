// Command nethttp serves the application with Go's standard library: over HTTP or
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
	l, overFastCGI, err := application.FromFlags()
	if err != nil {
		log.Fatal(err)
	}
	serve := http.Serve
	if overFastCGI {
		serve = fcgi.Serve
	}
	log.Fatal(serve(l, http.HandlerFunc(application.Handler)))
}
