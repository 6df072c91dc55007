package application

import "net/http"

// Files serves the working directory.
func Files() http.Handler { return http.FileServer(http.Dir(".")) }
