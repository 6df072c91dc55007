package cli_test

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// A command that was built with HTTP/3 serves it, and loads a server by it. It also exports spans.
// The default one reports how to build it.
func TestHTTP3AndTracingAreOptionsOfTheBuild(t *testing.T) {
	testkit.Long(t, "it builds the command")
	t.Parallel()
	dir := openDir(t)
	program := filepath.Join(dir, "tare")
	build := exec.Command("go", "build", "-pgo=off", "-tags", "http3 otel", "-o", program, "./cmd/tare")
	build.Dir = programs.Root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost"}})
	write(t, filepath.Join(dir, "cert.pem"), string(append(cert, key...)))
	address := programs.FreeAddresses(t, 1)[0]
	write(t, filepath.Join(dir, "nginx.conf"), strings.NewReplacer("DIR", dir, "ADDR", address).Replace(`events {}
		http { access_log DIR/access.log; otel_exporter { endpoint 127.0.0.1:1; } server { listen ADDR quic; return 200 "$http3\n";
		ssl_certificate DIR/cert.pem; ssl_certificate_key DIR/cert.pem; } }`))
	file := filepath.Join(dir, "nginx.conf")
	out, err := exec.Command("tare", "serve", "-c", file, "-t").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "built without HTTP/3 (build it with -tags http3)") ||
		!strings.Contains(string(out), "built without OpenTelemetry (build it with -tags otel)") {
		t.Errorf("the default command: %v: %s", err, out)
	}
	url := "https://" + address + "/"
	out, err = exec.Command("tare", "load", url, "--http3", "-n", "1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "built without HTTP/3 (build it with -tags http3)") {
		t.Errorf("load by the default command: %v: %s", err, out)
	}
	s := startServed(t, exec.Command(program, "serve", "-c", file))
	s.await("listening on https://" + regexp.QuoteMeta(address) + "/, by HTTP/3")
	for _, more := range [][]string{{"-n", "500"}, {"-n", "100", "--close"}, {"-n", "50", "--rate", "50"}} {
		args := append([]string{"load", url, "--http3", "--insecure", "-c", "4", "--expect-status", "200",
			"--expect-header", "Content-Type: text/plain"}, more...)
		out, err = exec.Command(program, args...).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), url+"\n") {
			t.Errorf("%v: %v: %s", more, err, out)
		}
	}
	load := exec.Command(program, "load", url, "--http3", "-d", "200ms")
	out, _ = load.CombinedOutput()
	if code := load.ProcessState.ExitCode(); code != 3 || !strings.Contains(string(out),
		"no connection to "+url+": HTTP/3: CRYPTO_ERROR 0x12a (local): tls: failed to verify certificate: ") {
		t.Errorf("an unknown certificate: exit code %d: %s", code, out)
	}
	log, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if n := strings.Count(string(log), "HTTP/3.0"); err != nil || n < 600 {
		t.Errorf("%d requests by HTTP/3, %v", n, err)
	}
	s.stop(syscall.SIGQUIT)
}
