package application

import (
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// Site is an application with its listener, from a command line.
type Site struct {
	Listener net.Listener
	FastCGI  bool   // instead of HTTP
	Cert     string // PEM file of the certificate with which HTTP is served over TLS; "" is no TLS
	Key      string // PEM file of its key
	Handler  http.Handler
}

// Serve serves the application with one of a server's functions, by its protocol.
func (s *Site) Serve(overHTTP, overFastCGI func(net.Listener, http.Handler) error,
	overTLS func(l net.Listener, h http.Handler, cert, key string) error) error {
	switch {
	case s.FastCGI:
		return overFastCGI(s.Listener, s.Handler)
	case s.Cert != "":
		return overTLS(s.Listener, s.Handler, s.Cert, s.Key)
	}
	return overHTTP(s.Listener, s.Handler)
}

// FromFlags parses arguments, which may have flags of the program, too, and listens.
func FromFlags(flags *flag.FlagSet, args []string) (*Site, error) {
	name := flags.String("application", "hello", "which application to serve")
	address := flags.String("listen", "", "address to listen on")
	socket := flags.String("socket", "", "unix socket to listen on instead")
	overFastCGI := flags.Bool("fcgi", false, "serve FastCGI instead of HTTP")
	cert := flags.String("cert", "", "PEM file of a certificate: serve HTTP over TLS")
	key := flags.String("key", "", "PEM file of its key")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	h, err := named(*name)
	if err != nil {
		return nil, err
	}
	open := listen
	if *name == routesName {
		open = func(address, _ string) (net.Listener, error) { return ListenTCP(address) }
	}
	l, err := open(*address, *socket)
	return &Site{Listener: l, FastCGI: *overFastCGI, Cert: *cert, Key: *key, Handler: h}, err
}

func listen(address, socket string) (net.Listener, error) {
	if socket == "" {
		return net.Listen("tcp", address)
	}
	l, err := net.Listen("unix", socket)
	if err == nil {
		err = os.Chmod(socket, 0o666) // nginx's workers run as another user
	}
	return l, err
}

func named(name string) (http.Handler, error) {
	all := map[string]http.Handler{
		"hello": http.HandlerFunc(Handler), "println": http.HandlerFunc(Println), "lines": Lines(), "files": Files(),
		"greeting": Greeting(), "limited": Limited(), "text": Text(),
		routesName: NewRoutes(),
	}
	if h, ok := all[name]; ok {
		return h, nil
	}
	return nil, fmt.Errorf("-application %q: want one of %s", name,
		strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}
