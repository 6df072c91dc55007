package application

import (
	"fmt"
	"net/http"
)

// Greeting sends Body from memory at "/", and files of the working directory at other paths.
func Greeting() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", Files())
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", fmt.Sprint(len(Body)))
		fmt.Fprint(w, Body)
	})
	return mux
}
