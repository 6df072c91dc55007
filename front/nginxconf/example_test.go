package nginxconf_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing/fstest"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/nginxconf"
)

// Parse reads a configuration; front.New makes a handler of it. Process lists the sockets to open.
func ExampleParse() {
	files := fstest.MapFS{
		"etc/nginx.conf": {Data: []byte(`
			events {}
			http {
				server {
					listen 8080;
					location / { return 301 https://$host$request_uri; }
					include sites/*.conf;
				}
			}`)},
		"etc/sites/a.conf": {Data: []byte(`location /hello { return 200 "Hello, $arg_name!"; }`)},
	}
	result, err := nginxconf.Parse("/etc/nginx.conf", nginxconf.Options{FS: files})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range result.Process.Listeners {
		fmt.Println("listen", l.Addr)
	}

	handler, err := front.New(result.Config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = handler.Close() }()
	for _, url := range []string{"http://example.org/hello?name=Gopher", "http://example.org/a"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
		if w.Code == http.StatusOK {
			fmt.Println(w.Code, w.Body)
		} else {
			fmt.Println(w.Code, w.Header().Get("Location"))
		}
	}
	// Output:
	// listen *:8080
	// 200 Hello, Gopher!
	// 301 https://example.org/a
}

// Parse returns all errors at once. Those of unsupported directives match errors.ErrUnsupported;
// with Options.Lenient they become Result.Ignored.
func ExampleParse_errors() {
	files := fstest.MapFS{"nginx.conf": {Data: []byte(`events {}
http {
	gzip maybe;
	server {
		listn 80;
		echo hello;
	}
}`)}}
	_, err := nginxconf.Parse("nginx.conf", nginxconf.Options{FS: files})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.ErrUnsupported))
	// Output:
	// nginx.conf:3: directive "gzip": invalid value "maybe" (must be on or off)
	// nginx.conf:5: unknown directive "listn"
	// nginx.conf:6: directive "echo": not supported: use return
	// true
}
