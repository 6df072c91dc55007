package front_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// A program writes its own Config. Requests to the upstream "app" are calls of a handler in the
// same process; requests below /old/ are redirected, and those below /internal/ are denied.
func ExampleNew() {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s for %s", r.URL.Path, r.Header.Get("X-Real-IP"))
	})
	handler, err := front.New(conf.Config{
		Hosts: []conf.Host{{
			Names: []string{"www.example.org"},
			Locations: []conf.Location{
				{Path: "/", Proxy: &conf.Proxy{To: "app", Header: []conf.Field{{Name: "X-Real-IP", Value: "$remote_addr"}}}},
				{Path: "/old/", Steps: []conf.Step{conf.Return{Status: 301, Text: "https://$host/"}}},
				{Path: "/internal/", Settings: &conf.Settings{Access: []conf.AccessRule{{Deny: true}}}},
			},
		}},
	}, front.Bind("app", app))
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close()

	for _, path := range []string{"/users", "/old/page", "/internal/state"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://www.example.org"+path, nil))
		switch w.Code {
		case http.StatusOK:
			fmt.Println(w.Code, w.Body)
		default:
			fmt.Println(w.Code, w.Header().Get("Location"))
		}
	}
	// Output:
	// 200 /users for 192.0.2.1
	// 301 https://www.example.org/
	// 403
}
