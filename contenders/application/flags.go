package application

import (
	"flag"
	"net"
	"os"
)

// FromFlags listens as the command line says, and returns whether FastCGI is to be
// spoken there, not HTTP.
func FromFlags() (l net.Listener, overFastCGI bool, err error) {
	address := flag.String("listen", "", "address to listen on")
	socket := flag.String("socket", "", "unix socket to listen on instead")
	flag.BoolVar(&overFastCGI, "fcgi", false, "speak FastCGI, not HTTP")
	flag.Parse()
	if *socket == "" {
		l, err = net.Listen("tcp", *address)
		return l, overFastCGI, err
	}
	l, err = net.Listen("unix", *socket)
	if err == nil {
		err = os.Chmod(*socket, 0o666) // nginx's workers are another user
	}
	return l, overFastCGI, err
}
