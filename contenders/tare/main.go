// Command tare serves the front experiment's application with tare: the same handler
// as net/http's.
package main

import (
	"flag"
	"log"
	"net/http"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/contenders/application"
)

func main() {
	address := flag.String("listen", "", "address to listen on")
	flag.Parse()
	log.SetFlags(0)
	log.Fatal(tare.ListenAndServe(*address, http.HandlerFunc(application.Handler)))
}
