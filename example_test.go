package tare_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
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

// Streams such as server-sent events do not end by themselves. Functions that RegisterOnShutdown
// names tell their handlers, and Shutdown then waits for them, until its context ends.
func ExampleServer_Shutdown() {
	stopping, stop := context.WithCancel(context.Background())
	events := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for i := 0; ; i++ {
			fmt.Fprintf(w, "data: %d\n\n", i)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done(): // the client has left
				return
			case <-stopping.Done():
				fmt.Fprint(w, "event: end\ndata: connect again\n\n")
				return
			}
		}
	}
	inner := &http.Server{Handler: http.HandlerFunc(events)}
	inner.RegisterOnShutdown(stop)
	server := tare.Wrap(inner)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)

	response, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(within); err != nil {
		server.Close() // ends the streams that are left
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", body)
	// Output:
	// data: 0
	//
	// event: end
	// data: connect again
}

// An http.Client sends its requests through a tare.Transport.
func ExampleTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello from %s", r.URL.Path)
	}))
	defer server.Close()

	transport := &tare.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: 100,
		IdleConnTimeout:     90 * time.Second,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	response, err := client.Get(server.URL + "/page")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(response.Status, string(body))
	// Output: 200 OK Hello from /page
}

// A TransportError reports what went wrong, on which side, and whether a retry is safe.
func ExampleTransportError() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close() // nothing listens on addr now

	transport := &tare.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	_, err = client.Get("http://" + addr + "/")
	var failure *tare.TransportError
	if !errors.As(err, &failure) {
		log.Fatal(err)
	}
	switch failure.Kind {
	case tare.CannotConnect:
		fmt.Println("cannot connect")
	case tare.TimedOut:
		fmt.Println("no response in time")
	case tare.CannotSend, tare.ConnectionClosed, tare.MalformedResponse:
		fmt.Println("no complete response")
	case tare.BadRequestBody:
		fmt.Println("the request's body could not be read")
	}
	fmt.Println("server side:", failure.Side == tare.ServerSide)
	fmt.Println("retry is safe:", failure.CanRetry)
	// Output:
	// cannot connect
	// server side: true
	// retry is safe: true
}
