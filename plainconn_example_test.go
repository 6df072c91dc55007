package tare_test

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"

	"github.com/tarehq/tare"
)

// limitListener accepts a limited number of connections at a time.
type limitListener struct {
	net.Listener
	places chan struct{}
}

func (l limitListener) Accept() (net.Conn, error) {
	l.places <- struct{}{}
	c, err := l.Listener.Accept()
	release := sync.OnceFunc(func() { <-l.places })
	if err != nil {
		release()
		return nil, err
	}
	return &limitConn{c, release}, nil
}

type limitConn struct {
	net.Conn
	release func()
}

// ReplaceConn makes limitConn a tare.PlainConn.
func (c *limitConn) ReplaceConn(f func(net.Conn) net.Conn) { c.Conn = f(c.Conn) }

func (c *limitConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// The connections of a listener that limits their number are served on event loops.
func ExamplePlainConn() {
	var _ tare.PlainConn = new(limitConn)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := tare.Wrap(&http.Server{Handler: http.NotFoundHandler()})
	go server.Serve(limitListener{l, make(chan struct{}, 1)})
	defer server.Close()

	for range 3 { // each takes the place of the one before
		response, err := new(http.Transport).RoundTrip(request("http://" + l.Addr().String()))
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(response.Status)
	}
	// Output:
	// 404 Not Found
	// 404 Not Found
	// 404 Not Found
}

// request returns a request after which the connection ends.
func request(url string) *http.Request {
	r, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		log.Fatal(err)
	}
	r.Close = true
	return r
}
