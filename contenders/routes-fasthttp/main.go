// Command routes-fasthttp serves the targets' handlers with fasthttp, through fasthttp's own API.
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
	routes := application.NewRoutes()
	server := fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		body, err := routes.Respond(string(ctx.Path()))
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
			return
		}
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(body)
	}}
	l, err := application.ListenTCP(*address)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(l))
}
