package application

import "net/http"

// Files serves the folder that the program runs in.
func Files() http.Handler { return http.FileServer(http.Dir(".")) }
