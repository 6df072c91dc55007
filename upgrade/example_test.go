package upgrade_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/upgrade"
)

// A server whose process is replaced when it receives SIGUSR2. Here it ends after a request.
func Example() {
	u, err := upgrade.New(upgrade.Options{})
	if err != nil {
		log.Fatal(err)
	}
	l, err := u.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello")
	})
	u.Serve(tare.Wrap(&http.Server{Handler: u.Handler(handler)}), l)

	go func() {
		defer u.Stop()
		resp, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		fmt.Printf("%s\n", b)
	}()
	if err := u.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: hello
}
