package http3_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// A client with another implementation of QUIC, HTTP/3 and QPACK is served, also after Retry.
func TestAIOQUICIsServed(t *testing.T) {
	t.Parallel()
	python, env := programs.Python(t, "aioquic==1.7.2", "pylsqpack==1.0.0", "cryptography==50.0.2", "cffi==2.1.1",
		"pycparser==3.12", "pyopenssl==26.4.0", "service_identity==26.1.0", "attrs==26.1.0", "certifi==2026.10.18",
		"typing_extensions==4.16.0", "pyasn1==0.6.5", "pyasn1_modules==0.4.2")
	for _, retry := range []string{"off", "on"} {
		s := serve(t, `server { listen ADDR quic; quic_retry `+retry+`; location / { proxy_pass http://app; }
			location /text { return 200 "$request_method $http3 $remote_addr"; } }`,
			server.Bind("app", http.HandlerFunc(describe)))
		_, port, _ := net.SplitHostPort(s.addr)
		for _, c := range []struct{ method, path, body, want string }{
			{"GET", "/text", "", "200 GET h3 127.0.0.1"},
			{"GET", "/app", "", `200 GET /app "app" 0 []  0 <nil>`},
			{"POST", "/app", strings.Repeat("b", 100000), `200 POST /app "app" -1 []  100000 <nil>`},
		} {
			cmd := testkit.Command(t, python, "testdata/client.py", port, c.method, c.path, c.body)
			cmd.Env = append(os.Environ(), env...)
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
				t.Errorf("retry %s, %s %s: got %q, %v; want %q", retry, c.method, c.path, got, err, c.want)
			}
		}
	}
}

// altSvcPage sends requests until one is sent by HTTP/3. Its frame keeps the page loading.
const altSvcPage = `<!doctype html><title>-</title><body><iframe src=/until></iframe><script>
(async () => {
	let protocols = new Set();
	for (let n = 0; n < 1000 && !protocols.has("h3"); n++) {
		await (await fetch("/text?" + n)).text();
		performance.getEntriesByType("resource").forEach(e => protocols.add(e.nextHopProtocol));
		performance.clearResourceTimings();
	}
	const upload = await fetch("/echo", {method: "POST", body: "u".repeat(1 << 20)});
	document.body.append("uploaded " + (await upload.text()).length + " protocols " + [...protocols].join());
	await fetch("/done");
})();
</script>`

// A browser learns of HTTP/3 from Alt-Svc, and uses it.
func TestChromiumFollowsAltSvc(t *testing.T) {
	t.Parallel()
	chromium := programs.Chromium(t)
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, altSvcPage)
		case "/until":
			select {
			case <-done:
			case <-r.Context().Done():
			}
		case "/echo":
			_, _ = io.Copy(w, r.Body)
		case "/done":
			end()
		default:
			_, _ = io.WriteString(w, "text")
		}
	})
	s := serve(t, `server { listen ADDR ssl; listen ADDR quic; http2 on; add_header Alt-Svc 'h3="ADDR"; ma=60' always;
		client_max_body_size 2m; location / { proxy_pass http://app; } }`, server.Bind("app", app))
	_, port, err := net.SplitHostPort(s.addr)
	testkit.Must(t, err)
	dom, messages := programs.Browse(t, chromium, t.TempDir(), programs.WithQUIC, "--dump-dom",
		"--host-resolver-rules=MAP localhost 127.0.0.1", "--ignore-certificate-errors-spki-list="+s.publicKeyHash(),
		"https://localhost:"+port+"/page")
	testkit.Contains(t, dom, "uploaded 1048576 protocols ", messages)
	testkit.Contains(t, dom, "h3", messages)
}

// publicKeyHash returns the hash of the certificate's key, by which browsers accept it.
func (s *site) publicKeyHash() string {
	s.Helper()
	text := testkit.Value(os.ReadFile(filepath.Join(s.dir, "cert.pem")))(s)
	block, _ := pem.Decode(text)
	cert := testkit.Value(x509.ParseCertificate(block.Bytes))(s)
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}
