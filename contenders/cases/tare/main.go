// Command tare serves the benchmarks' cases with tare.
package main

import (
	"log"
	"net/http"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/contenders/cases"
)

func main() {
	log.SetFlags(0)
	site, err := cases.FromFlags()
	if err != nil {
		log.Fatal(err)
	}
	server := tare.Wrap(&http.Server{Handler: site, TLSConfig: site.TLS})
	if site.TLS != nil {
		log.Fatal(server.ServeTLS(site.Listener, "", ""))
	}
	log.Fatal(server.Serve(site.Listener))
}
