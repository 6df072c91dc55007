// Command nethttp serves the front experiment's application with Go's standard
// library: over HTTP, or over FastCGI on a port or a unix socket.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"

	"github.com/tarehq/tare/contenders/application"
)

func main() {
	address := flag.String("listen", "", "address to listen on")
	socket := flag.String("socket", "", "unix socket to listen on instead")
	overFastCGI := flag.Bool("fcgi", false, "speak FastCGI, not HTTP")
	flag.Parse()
	log.SetFlags(0)

	handler := http.HandlerFunc(application.Handler)
	l, err := listen(*address, *socket)
	if err != nil {
		log.Fatal(err)
	}
	if *overFastCGI {
		log.Fatal(fcgi.Serve(l, handler))
	}
	log.Fatal(http.Serve(l, handler))
}

func listen(address, socket string) (net.Listener, error) {
	if socket == "" {
		return net.Listen("tcp", address)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(socket, 0o666) // nginx's workers are another user
}
