// Command files-fasthttp serves its working directory with fasthttp's own file server.
package main

import (
	"flag"
	"log"

	"github.com/valyala/fasthttp"
)

func main() {
	address := flag.String("listen", "", "address to listen on")
	flag.Parse()
	log.SetFlags(0)
	files := fasthttp.FS{Root: ".", IndexNames: []string{"index.html"}, AcceptByteRange: true}
	server := fasthttp.Server{Handler: files.NewRequestHandler()}
	log.Fatal(server.ListenAndServe(*address))
}
