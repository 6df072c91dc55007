// Package application is what the contenders in Go serve: an application for each
// experiment, so that it is the same whatever serves it.
package application

import (
	"fmt"
	"net/http"
)

// Body is the response's body.
const Body = "Hello World\n"

// Handler is the first write-up's handler, for net/http and what is compatible with it:
// it sets four header fields and answers with twelve bytes of body. A response by HTTP
// is 153 bytes whichever way it is served.
func Handler(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Server", "gophr")
	w.Header().Set("Connection", "keep-alive")
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", fmt.Sprint(len(Body)))
	fmt.Fprint(w, Body)
}
