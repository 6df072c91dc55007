package application

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

// Lines sends numbered lines of a text. The path is /text/number.
func Lines() http.Handler {
	path := regexp.MustCompile(`^/([^/]+)/([0-9]+)$`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		match := path.FindStringSubmatch(r.URL.Path)
		if match == nil || r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		n, err := strconv.Atoi(match[2])
		if err != nil {
			http.NotFound(w, r)
			return
		}
		for i := range n {
			fmt.Fprintf(w, "%d: %s\n", i, match[1])
		}
	})
}
