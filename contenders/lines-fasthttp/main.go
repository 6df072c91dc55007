// Command lines-fasthttp serves the application of lines with fasthttp and its router.
package main

import (
	"flag"
	"fmt"
	"log"
	"strconv"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

func lines(ctx *fasthttp.RequestCtx) {
	n, err := strconv.Atoi(ctx.UserValue("number").(string))
	if err != nil {
		ctx.NotFound()
		return
	}
	for i := range n {
		fmt.Fprintf(ctx, "%d: %s\n", i, ctx.UserValue("text"))
	}
}

func main() {
	log.SetFlags(0)
	address := flag.String("listen", "", "address to listen on")
	flag.Parse()
	r := router.New()
	r.GET("/{text:[^/]+}/{number:[0-9]+}", lines)
	s := &fasthttp.Server{Handler: r.Handler}
	log.Fatal(s.ListenAndServe(*address))
}
