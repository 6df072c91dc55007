package cli_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"time"
)

// These programs serve on the network and address of their first arguments and write the address to
// a file.

func greet(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

func helloUnix() {
	serve(func(l net.Listener) error { return http.Serve(l, http.HandlerFunc(greet)) })
}

func helloFCGI() {
	serve(func(l net.Listener) error { return fcgi.Serve(l, http.HandlerFunc(greet)) })
}

// refuseFCGI refuses every request and writes the reason to STDERR.
func refuseFCGI() {
	const response = "\x01\x07\x00\x01\x00\x0b\x00\x00no\x1bchildren" + "\x01\x03\x00\x01\x00\x08\x00\x00" +
		"\x00\x00\x00\x00\x02\x00\x00\x00"
	serve(func(l net.Listener) error {
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, response)
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	})
}

func serve(on func(net.Listener) error) {
	serveAt(os.Args[1], os.Args[2], os.Args[3], net.Addr.String, on)
}

// serveAt serves at an address, and writes what text returns of it to a file.
func serveAt(network, address, file string, text func(net.Addr) string, on func(net.Listener) error) {
	l, err := net.Listen(network, address)
	if err == nil {
		err = os.WriteFile(file, []byte(text(l.Addr())), 0o600)
	}
	if err == nil {
		err = on(l)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// statuses responds with the status in the path, the request's body, and the request's properties
// as header fields.
func statuses() {
	serveHTTP("", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			code = http.StatusBadRequest
		}
		w.Header().Set("Method", r.Method)
		w.Header().Set("Query", r.URL.RawQuery)
		w.WriteHeader(code)
		if code != http.StatusNoContent {
			_, _ = io.Copy(w, r.Body)
		}
	})
}

// silent never responds. It writes a second file at each request.
func silent() {
	busy := busyAfter(1)
	serveHTTP("", func(http.ResponseWriter, *http.Request) {
		busy()
		select {}
	})
}

// serveHTTP serves on any port and writes its URL, with a path, to the file of the first argument.
func serveHTTP(path string, handler http.HandlerFunc) {
	serveAt("tcp", "127.0.0.1:0", os.Args[1], func(address net.Addr) string { return "http://" + address.String() + path },
		func(l net.Listener) error { return http.Serve(l, handler) })
}

// helloTLS serves over TLS. It writes its URL to one file and its certificate to another.
func helloTLS() {
	s := httptest.NewUnstartedServer(http.HandlerFunc(greet))
	s.EnableHTTP2 = true
	s.StartTLS()
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	err := os.WriteFile(os.Args[2], b, 0o600)
	if err == nil {
		err = os.WriteFile(os.Args[1], []byte(s.URL), 0o600)
	}
	if err == nil {
		select {}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// queueCapacity is the number of requests per second that helloQueue serves.
const queueCapacity = 500

// helloQueue handles requests one after the other, each for the same time on any machine. Its
// arguments are those of helloUnix.
func helloQueue() {
	var mu sync.Mutex
	var free time.Time // when all requests so far will have been served
	serve(func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			if now := time.Now(); free.Before(now) {
				free = now
			}
			free = free.Add(time.Second / queueCapacity)
			done := free
			mu.Unlock()
			time.Sleep(time.Until(done))
			fmt.Fprint(w, "hello")
		}))
	})
}
