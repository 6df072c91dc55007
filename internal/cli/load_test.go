package cli_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
)

// These serve on the network and at the address of their first arguments, and write to a
// file where that is.

func greet(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

func helloUnix() {
	serve(func(l net.Listener) error { return http.Serve(l, http.HandlerFunc(greet)) })
}

func helloFCGI() {
	serve(func(l net.Listener) error { return fcgi.Serve(l, http.HandlerFunc(greet)) })
}

// refuseFCGI refuses every request and says why on STDERR.
func refuseFCGI() {
	const answer = "\x01\x07\x00\x01\x00\x0b\x00\x00no\x1bchildren" + "\x01\x03\x00\x01\x00\x08\x00\x00" + "\x00\x00\x00\x00\x02\x00\x00\x00"
	serve(func(l net.Listener) error {
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, answer)
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	})
}

func serve(on func(net.Listener) error) {
	l, err := net.Listen(os.Args[1], os.Args[2])
	if err == nil {
		err = os.WriteFile(os.Args[3], []byte(l.Addr().String()), 0o600)
	}
	if err == nil {
		err = on(l)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
