// Command fasthttp serves the benchmarks' cases with fasthttp, through fasthttp's own
// API.
package main

import (
	"log"

	"github.com/valyala/fasthttp"

	"github.com/tarehq/tare/contenders/cases"
)

func main() {
	log.SetFlags(0)
	site, err := cases.FromFlags()
	if err != nil {
		log.Fatal(err)
	}
	if site.TLS != nil {
		log.Fatal("-tls: no benchmark compares fasthttp over TLS; leave it out")
	}
	server := fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		body, err := site.Respond(string(ctx.Path()))
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
			return
		}
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(body)
	}}
	log.Fatal(server.Serve(site.Listener))
}
