package server_test

import (
	"context"
	"io"
	"log"
	"net/http"

	"github.com/tarehq/tare/front/server"
)

// A program serves an nginx.conf, in which "proxy_pass http://app" calls its handler. It opens the
// addresses of the file, serves its certificates, and reloads on SIGHUP.
func Example() {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello from the program\n")
	})
	log.Fatal(server.Run(context.Background(), server.File{Path: "nginx.conf"}, server.Options{},
		server.Bind("app", app)))
}
