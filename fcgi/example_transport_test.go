package fcgi_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	netfcgi "net/http/fcgi"
	"net/http/httputil"

	"github.com/tarehq/tare/fcgi"
)

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
