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
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %d %v %x", r.ContentLength, len(b), err, checksum(b))
	})
	for _, stream := range []bool{false, true} {
		c := proxyTo(conf.Proxy{To: conf.Text(to), StreamRequest: stream})
		c.Hosts[0].Locations[0].Settings = &conf.Settings{MaxBody: 300 << 10}
		a := serveHandler(t, newFront(t, c))
		for _, n := range []int{0, 1, 16 << 10, 16<<10 + 1, 40_000, 300 << 10} {
			body := pattern(n)
			length := n
			for _, known := range []bool{true, false} {
				var r io.Reader = strings.NewReader(body)
				if !known {
					r = struct{ io.Reader }{r}
					if stream {
						length = -1
					}
				}
				want := fmt.Sprintf("%d %d <nil> %x", length, n, checksum([]byte(body)))
				testkit.Equal(t, a.do("POST", "/", r).body, want, "stream", stream, "known", known)
			}
		}
		for _, r := range []io.Reader{strings.NewReader(pattern(300<<10 + 1)),
			struct{ io.Reader }{strings.NewReader(pattern(300<<10 + 1))}} {
			testkit.Equal(t, a.do("POST", "/", r).status, 413, "stream", stream, "one byte too many")
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
					b := testkit.Value(io.ReadAll(resp.Body))(t)
					resp.Body.Close()
					testkit.Equal(t, string(b), pattern(n), n, known)
				}
			}
		})
	}
}

// A body is in the file whose name the upstream receives, and the file stays if it is to be kept.
func TestBodyIsInNamedFile(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, body := range []string{"short", strings.Repeat("long", 50_000)} {
			for _, noBody := range []bool{false, true} {
				dir := t.TempDir()
				to := serve(t, func(w http.ResponseWriter, r *http.Request) {
					sent, _ := io.ReadAll(r.Body)
					stored, err := os.ReadFile(r.Header.Get("X-File"))
					fmt.Fprint(w, string(stored) == body, " ", len(sent), " ", err)
				})
				file := map[bool]string{true: "on", false: "clean"}[keep]
				sent := map[bool]string{true: "off", false: "on"}[noBody]
				a := serveConf(t, "", "client_body_temp_path "+dir+"; client_body_in_file_only "+file+
					"; proxy_request_buffering off; proxy_pass_request_body "+sent+
					"; location / { proxy_set_header X-File $request_body_file; proxy_pass http://"+to+"; }")
				want := fmt.Sprint("true ", len(body), " <nil>")
				if noBody {
					want = "true 0 <nil>"
				}
				testkit.Equal(t, a.do("POST", "/", strings.NewReader(body)).body, want)
				a.get("/") // no body: no file. The response shows that the first request has ended.
				kept := testkit.Value(filepath.Glob(filepath.Join(dir, "*")))(t)
				testkit.Equal(t, len(kept) == 1, keep, "files", kept)
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
	to := serve(t, echo)
	dir := filepath.Join(t.TempDir(), "gone")
	testkit.Must(t, os.Mkdir(dir, 0o700))
	s := conf.Settings{BodyFile: "clean", BodyDir: dir}
	a := serveHandler(t, newFront(t,
		oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to)}, Settings: &s})))
	testkit.Must(t, os.Remove(dir))
	a.do("POST", "/", strings.NewReader("body")).is(t, 500)
}
