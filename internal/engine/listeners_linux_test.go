package engine_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// A server can serve HTTP on one listener and FastCGI on another. The runners of its shards serve
// both, also a head of one protocol that arrives in pieces while they serve the other.
func TestEachListenerKeepsItsProtocol(t *testing.T) {
	for name, dispatch := range map[string]engine.Dispatch{
		"on loop": engine.OnLoop, "own goroutine": engine.OwnGoroutine,
	} {
		t.Run(name, func(t *testing.T) {
			accepted := make(chan bool, 1)
			var once sync.Once
			s := engine.New(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				once.Do(func() { accepted <- true })
				io.WriteString(w, "good.")
			})})
			s.Dispatch = dispatch
			serve := func() (dial func() net.Conn) {
				l, d := listen(t, "tcp", "127.0.0.1:0")
				served := goServe(s, l)
				t.Cleanup(func() { s.Close(); <-served })
				return func() net.Conn {
					c, err := d()
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { c.Close() })
					c.SetDeadline(time.Now().Add(time.Minute))
					return c
				}
			}
			dialHTTP := serve()
			c := dialHTTP()
			io.WriteString(c, get)
			readResponses(t, c, 1)
			<-accepted // Serve has read FastCGI
			s.FastCGI = true
			dialFCGI := serve()

			for i := range 20 {
				web, app := dialHTTP(), newFCGIPeer(t, dialFCGI())
				request := aGET("/")
				for split := range 3 {
					io.WriteString(web, get[:10*split])
					io.WriteString(app, request[:10*split])
					time.Sleep(time.Millisecond) // so that they wait in pieces
					io.WriteString(web, get[10*split:])
					if got, err := tryReadResponses(web, 1); err != nil {
						t.Fatal("HTTP", i, split, got, err)
					}
					io.WriteString(app, request[10*split:])
					if a, err := app.tryReadResponse(); err != nil {
						t.Fatal("FastCGI", i, split, fmt.Sprint(a), err)
					}
				}
			}
		})
	}
}
