// Package application has the applications of the experiments. All contenders in Go share them. On
// machines without Go, the command tare serves them.
package application

import (
	"fmt"
	"net/http"
)

// Body is the response's body.
const Body = "Hello World\n"

// Handler is the first write-up's handler, for servers with net/http's API. It sends four header
// fields and a body of twelve bytes. With every server the HTTP response has 153 bytes.
func Handler(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Server", "gophr")
	w.Header().Set("Connection", "keep-alive")
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", fmt.Sprint(len(Body)))
	fmt.Fprint(w, Body)
}
