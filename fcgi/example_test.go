package fcgi_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/tarehq/tare/fcgi"
)

// A program for net/http/fcgi needs another import path, and nothing else.
func ExampleServe() {
	http.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello, %s\n", fcgi.ProcessEnv(r)["REMOTE_USER"])
	})
	l, err := net.Listen("unix", "/run/hello/fcgi.sock")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(fcgi.Serve(l, nil))
}

// A Server has timeouts, and can be told to stop.
func ExampleServer() {
	server := &fcgi.Server{
		ReadParamsTimeout: 5 * time.Second,
		WriteTimeout:      time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Second): // work
				fmt.Fprintln(w, "done")
			case <-r.Context().Done(): // the client has left
				fmt.Fprintln(fcgi.Stderr(w), "for nobody:", r.RequestURI) // in the web server's log
			}
		}),
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	stopped := context.AfterFunc(interrupted, func() {
		if err := server.Shutdown(context.Background()); err != nil {
			log.Print(err)
		}
	})
	defer stopped()
	if err := server.Serve(nil); !errors.Is(err, http.ErrServerClosed) { // standard input is the socket
		log.Fatal(err)
	}
}
