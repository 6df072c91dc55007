// Command fasthttp serves the front experiment's application with fasthttp, through
// fasthttp's own API.
package main

import (
	"flag"
	"log"

	"github.com/valyala/fasthttp"

	"github.com/tarehq/tare/internal/application"
)

func main() {
	address := flag.String("listen", "", "address to listen on")
	flag.Parse()
	log.SetFlags(0)
	server := fasthttp.Server{Name: "gophr", Handler: handle}
	log.Fatal(server.ListenAndServe(*address))
}

func handle(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("Connection", "keep-alive")
	ctx.SetContentType("text/plain")
	ctx.SetBodyString(application.Body)
}
