package fcgi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	netfcgi "net/http/fcgi"
	"net/http/httputil"
	"os"
	"os/signal"
	"time"

	"github.com/tarehq/tare/fcgi"
)

// A program that uses net/http/fcgi changes its import path, and nothing else.
func ExampleServe() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()
	go fcgi.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello, %s", fcgi.ProcessEnv(r)["REMOTE_USER"])
	}))

	// Usually a web server sends the requests. Here a Transport does.
	client := &http.Client{Transport: &fcgi.Transport{
		Addr:   listener.Addr().String(),
		Params: func(_ *http.Request, p *fcgi.Params) { p.Set("REMOTE_USER", "gopher") },
	}}
	response, err := client.Get("http://www.example/hello")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(response.Status, string(body))
	// Output: 200 OK Hello, gopher
}

// A Server has timeouts, and Shutdown stops it.
func ExampleServer() {
	server := &fcgi.Server{
		ReadParamsTimeout: 5 * time.Second,
		WriteTimeout:      time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Second): // work
				fmt.Fprintln(w, "done")
			case <-r.Context().Done(): // the client has gone
				fmt.Fprintln(fcgi.Stderr(w), "abandoned:", r.RequestURI) // in the web server's log
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
	// standard input is the listening socket
	if err := server.Serve(nil); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

// A Transport sends requests to a FastCGI application, in whatever language that is written.
func ExampleTransport() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer listener.Close()
	go netfcgi.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s of %s", r.URL.Path, r.Host)
	}))

	client := &http.Client{Transport: &fcgi.Transport{Addr: listener.Addr().String(), MaxIdleConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://www.example/page")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(response.Status, string(body))
	// Output: 200 OK /page of www.example
}

// A site in PHP has a front controller, and runs in php-fpm with pm.max_children = 10.
func ExampleTransport_php() {
	php := &fcgi.Transport{
		Addr:                "/run/php/php-fpm.sock",
		Root:                "/var/www/html",
		Script:              "/index.php",
		MaxConnsPerHost:     10,
		MaxIdleConnsPerHost: 10,
		BufferBody:          8 << 20,
		Stderr:              func(r *http.Request, text []byte) { log.Printf("%s: %q", r.URL.Path, text) },
	}
	http.Handle("/", &httputil.ReverseProxy{
		Transport: php,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme = "http"
			p.Out.Host = p.In.Host // PHP uses this as the name of the site
		},
	})
	http.Handle("/static/", http.FileServer(http.Dir("/var/www/html")))
	log.Fatal(http.ListenAndServe(":8080", nil))
}
