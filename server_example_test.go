package tare_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/tarehq/tare"
)

// A program wraps its http.Server, and otherwise stays as it is.
func ExampleWrap() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello, %s", r.URL.Path[1:])
	})
	server := tare.Wrap(&http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Shutdown(context.Background())

	response, err := http.Get("http://" + listener.Addr().String() + "/world")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", response.Status, body)
	// Output: 200 OK: Hello, world
}
