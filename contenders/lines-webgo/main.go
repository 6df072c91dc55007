// Command lines-webgo serves the application of lines with web.go.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"strconv"

	"github.com/hoisie/web"
)

func lines(ctx *web.Context, text, number string) {
	n, err := strconv.Atoi(number)
	if err != nil {
		ctx.NotFound("no such page")
		return
	}
	for i := range n {
		fmt.Fprintf(ctx, "%d: %s\n", i, text)
	}
}

func main() {
	address := flag.String("listen", "", "address to listen on")
	flag.Parse()
	web.SetLogger(log.New(io.Discard, "", 0)) // it would log every request
	web.Get("/([^/]+)/([0-9]+)", lines)
	web.Run(*address)
}
