package files_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/tarehq/tare/front/files"
)

// A directory is a handler of any http.Server. Its variants with gzip are made at the first
// request.
func Example() {
	dir, err := os.MkdirTemp("", "files")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err = os.WriteFile(filepath.Join(dir, "index.html"), []byte("Hello."), 0o600); err != nil {
		log.Fatal(err)
	}
	h, err := files.New(files.Config{Dir: dir, Compress: files.Compress{Gzip: true}, CacheControl: "max-age=60"})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()

	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code, w.Header().Get("Cache-Control"), w.Body)
	// Output: 200 max-age=60 Hello.
}
