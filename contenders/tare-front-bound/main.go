// Command tare-front-bound serves an nginx.conf whose upstream is a handler in the same process.
// The front calls it as a function.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/application"
)

func main() {
	log.SetFlags(0)
	app := server.Bind("application", http.HandlerFunc(application.Handler))
	err := server.Run(context.Background(), server.File{Path: os.Args[1]}, server.Options{}, app)
	if err != nil {
		log.Fatal(err)
	}
}
