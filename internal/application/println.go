package application

import (
	"fmt"
	"net/http"
)

// Println sends the same body and sets no header fields.
func Println(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "Hello World")
}
