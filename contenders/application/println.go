package application

import (
	"fmt"
	"net/http"
)

// Println answers with the same body and leaves the head to the server.
func Println(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "Hello World")
}
