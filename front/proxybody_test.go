package front_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// Bodies of all sizes arrive unchanged, with a length and without, buffered or streamed.
func TestRequestBodiesArriveUnchanged(t *testing.T) {
	const most = 300 << 10
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.ContentLength, len(b), err, checksum(b))
	})
	for _, buffering := range []string{"on", "off"} {
		a := serveConf(t, "", "client_max_body_size 300k; proxy_request_buffering "+buffering+
			"; proxy_http_version 1.1; "+passTo(to))
		for _, n := range []int{0, 1, 16 << 10, 16<<10 + 1, 40_000, most, most + 1} {
			body := pattern(n)
			for _, known := range []bool{true, false} {
				var r io.Reader = strings.NewReader(body)
				length := n
				if !known {
					r = struct{ io.Reader }{r}
					if buffering == "off" {
						length = -1
					}
				}
				got := a.do("POST", "/", r)
				if n > most {
					got.is(t, 413)
				} else {
					want := fmt.Sprint(length, n, nil, checksum([]byte(body)))
					testkit.Equal(t, got.body, want, "buffering", buffering, "known", known)
				}
			}
		}
	}
}

func pattern(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return string(b)
}

func checksum(b []byte) (sum uint64) {
	for _, c := range b {
		sum = sum*31 + uint64(c)
	}
	return sum
}

// Responses of all sizes arrive unchanged, with a length and without, through memory and files, at
// any speed.
func TestResponseBodiesArriveUnchanged(t *testing.T) {
	testkit.Long(t, "it transfers much")
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := 0
		fmt.Sscan(r.FormValue("n"), &n)
		if r.FormValue("known") != "" {
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		io.WriteString(w, pattern(n))
	})
	for name, p := range map[string]conf.Proxy{
		"usual": {}, "stream": {Stream: true}, "little memory": {BufferBytes: 1},
		"no file": {BufferBytes: 1, MaxSpool: -1}, "small file": {BufferBytes: 1, MaxSpool: 100 << 10},
		"kept": {Version: "1.1", Header: []conf.Field{{Name: "Connection"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p.To = "up"
			c := proxyTo(p)
			c.Upstreams = []conf.Upstream{{Name: "up", Servers: []conf.Server{{Addr: to}}, Keepalive: 4}}
			a := serveHandler(t, newFront(t, c))
			for _, n := range []int{0, 1, 8191, 8192, 32 << 10, 32<<10 + 1, 200_000, 3 << 20} {
				for _, known := range []string{"", "&known=1"} {
					resp := testkit.Value(a.client.Get(fmt.Sprintf("http://x/?n=%d%s", n, known)))(t)
					if n > 1<<20 {
						time.Sleep(20 * time.Millisecond) // a slow client
					}
					testkit.Reads(t, resp.Body, pattern(n), n, known)
					resp.Body.Close()
				}
			}
		})
	}
}

// A body is in the file whose name the upstream receives, and the file stays if it is to be kept.
func TestBodyIsInNamedFile(t *testing.T) {
	for _, file := range []string{"on", "clean"} {
		for _, body := range []string{"short", strings.Repeat("long", 50_000)} {
			for sent, n := range map[string]int{"on": len(body), "off": 0} {
				dir := t.TempDir()
				to := serve(t, func(w http.ResponseWriter, r *http.Request) {
					sent, _ := io.ReadAll(r.Body)
					stored, err := os.ReadFile(r.Header.Get("X-File"))
					fmt.Fprint(w, string(stored) == body, " ", len(sent), " ", err)
				})
				a := serveConf(t, "", "client_body_temp_path "+dir+"; client_body_in_file_only "+file+
					"; proxy_request_buffering off; proxy_pass_request_body "+sent+
					"; location / { proxy_set_header X-File $request_body_file; proxy_pass http://"+to+"; }")
				testkit.Equal(t, a.do("POST", "/", strings.NewReader(body)).body, fmt.Sprint("true ", n, " <nil>"))
				a.get("/") // no body: no file. The response shows that the first request has ended.
				kept := testkit.Value(filepath.Glob(filepath.Join(dir, "*")))(t)
				testkit.Equal(t, len(kept) == 1, file == "on", "files", kept)
			}
		}
	}
}

// The folder of bodies must be one that the process can write. A check of a Config does not create
// it.
func TestBodyFolderIsWritableAndNotMadeByChecks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bodies")
	c := func(dir string) conf.Config {
		return oneHost(conf.Location{Path: "/", Settings: &conf.Settings{BodyFile: "clean", BodyDir: dir}})
	}
	newFront(t, c(dir), front.CachesInMemory())
	testkit.Fails(os.Stat(dir))(t, "no such file", "the folder after a check")
	testkit.Fails(front.New(c(filepath.Join(dir, "x")), front.CachesInMemory()))(t, "no such file")
	testkit.Must(t, os.WriteFile(dir, nil, 0o600)) // where also root cannot create files
	testkit.Fails(front.New(c(dir)))(t, "permission denied", "a file in place of the folder")
}

// A body that cannot be stored is the server's error.
func TestBodyThatCannotBeStored(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	testkit.Must(t, os.Mkdir(dir, 0o700))
	a := serveConf(t, "", "client_body_in_file_only clean; client_body_temp_path "+dir+"; "+passTo(serve(t, echo)))
	testkit.Must(t, os.Remove(dir))
	a.do("POST", "/", strings.NewReader("body")).is(t, 500)
}
