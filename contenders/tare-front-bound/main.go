// Command tare-front-bound serves an nginx.conf whose upstream is a handler in the same process.
// The front calls it as a function.
package main

import (
	"log"
	"net"
	"net/http"
	"os"
	"runtime"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/application"
)

func main() {
	log.SetFlags(0)
	read, err := nginxconf.Parse(os.Args[1], nginxconf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := front.New(read.Config, front.Bind("application", http.HandlerFunc(application.Handler)))
	if err != nil {
		log.Fatal(err)
	}
	if read.Process.Workers > 0 {
		runtime.GOMAXPROCS(read.Process.Workers)
	}
	ended := make(chan error)
	for _, at := range read.Process.Listeners {
		l, err := net.Listen("tcp", at.Addr)
		if err != nil {
			log.Fatal(err)
		}
		server := tare.Wrap(&http.Server{Handler: handler, ReadHeaderTimeout: at.HeaderTimeout,
			IdleTimeout: at.IdleTimeout})
		go func() { ended <- server.Serve(l) }()
	}
	log.Fatal(<-ended)
}
