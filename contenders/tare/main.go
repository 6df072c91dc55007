// Command tare serves the application with tare: the same handler as net/http's, over
// HTTP or over FastCGI, on a port or on a unix socket.
package main

import (
	"log"
	"net/http"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/contenders/application"
	"github.com/tarehq/tare/fcgi"
)

func main() {
	log.SetFlags(0)
	l, overFastCGI, err := application.FromFlags()
	if err != nil {
		log.Fatal(err)
	}
	serve := tare.Serve
	if overFastCGI {
		serve = fcgi.Serve
	}
	log.Fatal(serve(l, http.HandlerFunc(application.Handler)))
}
