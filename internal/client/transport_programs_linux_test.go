package client_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// webFiles makes a folder with files, and returns the content of the long one.
func webFiles(t *testing.T) (dir, long string) {
	dir, long = t.TempDir(), strings.Repeat("0123456789abcdef", 1<<14)
	for name, text := range map[string]string{
		"short.txt": "short", "long.txt": long, "empty.txt": "",
		"echo.php": "<?php header('X-Method: '.$_SERVER['REQUEST_METHOD']); echo file_get_contents('php://input'); " +
			"flush(); echo '.';",
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir, long
}

// requestFiles sends many requests for the files.
func requestFiles(t *testing.T, tr *tare.Transport, base, long string) {
	t.Helper()
	for i := range 10 {
		for path, want := range map[string]string{"/short.txt": "short", "/long.txt": long, "/empty.txt": ""} {
			resp := testkit.Value((&http.Client{Transport: tr}).Get(base + path))(t)
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || string(b) != want {
				t.Errorf("%s: %d, %d bytes, %v", path, resp.StatusCode, len(b), err)
			}
		}
		if resp, err := tr.RoundTrip(mustRequest("HEAD", base+"/long.txt", nil)); err != nil ||
			resp.ContentLength != int64(len(long)) {
			t.Errorf("HEAD %d: %v", i, err)
		}
	}
}

func TestTransportWithNginx(t *testing.T) {
	tool := programs.Nginx(t)
	root, long := webFiles(t)
	dir := t.TempDir()
	socket, conf := filepath.Join(dir, "s"), filepath.Join(dir, "conf")
	text := fmt.Sprintf(`daemon off; worker_processes 1; error_log stderr error; pid %[1]s/pid;
events { worker_connections 64; }
http { access_log off; gzip on; gzip_types text/plain; gzip_min_length 1; keepalive_requests 7; default_type text/plain;
client_body_temp_path %[1]s; proxy_temp_path %[1]s;
fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
server { listen unix:%[2]s; root %[3]s; } }`, dir, socket, root)
	if os.Getuid() == 0 {
		text = "user root; " + text
	}
	testkit.Must(t, os.WriteFile(conf, []byte(text), 0o644))
	programs.Start(t, "unix", socket, tool.Env, tool.Bin, "-e", "stderr", "-p", dir, "-c", conf)
	tr := &tare.Transport{Addr: socket, DisableCompression: true}
	defer tr.CloseIdleConnections()
	requestFiles(t, tr, "http://host", long)
	zipped := &tare.Transport{Addr: socket}
	defer zipped.CloseIdleConnections()
	resp := testkit.Value(zipped.RoundTrip(mustRequest("GET", "http://host/long.txt", nil)))(t)
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != long || !resp.Uncompressed {
		t.Errorf("%d bytes, %v, decompressed %v", len(b), err, resp.Uncompressed)
	}
}

func TestTransportWithPHP(t *testing.T) {
	path, env := programs.PHPServer(t)
	root, long := webFiles(t)
	address := programs.FreeAddress(t)
	programs.Start(t, "tcp", address, env, path, "-n", "-S", address, "-t", root)
	tr := &tare.Transport{}
	defer tr.CloseIdleConnections()
	requestFiles(t, tr, "http://"+address, long)
	for range 5 {
		resp := testkit.Value(tr.RoundTrip(mustRequest("POST", "http://"+address+"/echo.php", strings.NewReader("body"))))(t)
		testkit.Reads(t, resp.Body, "body.")
		testkit.Equal(t, resp.Header.Get("X-Method"), "POST")
	}
}

func TestTransportWithTinyproxy(t *testing.T) {
	path, env := programs.Installed(t, "tinyproxy", "tinyproxy-bin")
	address := programs.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	conf := filepath.Join(t.TempDir(), "conf")
	testkit.Must(t, os.WriteFile(conf, []byte("Port "+port+
		"\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\nLogLevel Error\nBasicAuth u p\n"), 0o644))
	programs.Start(t, "tcp", address, env, path, "-d", "-c", conf)
	root, long := webFiles(t)
	plain, secure := httptest.NewServer(http.FileServer(http.Dir(root))), httptest.NewUnstartedServer(
		http.FileServer(http.Dir(root)))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	proxy := &url.URL{Scheme: "http", Host: address, User: url.UserPassword("u", "p")}
	config := secure.Client().Transport.(*http.Transport).TLSClientConfig
	for _, force := range []bool{false, true} { // HTTP/2 through the tunnel
		tr := &tare.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: config, ForceAttemptHTTP2: force}
		requestFiles(t, tr, plain.URL, long)
		requestFiles(t, tr, secure.URL, long)
		tr.CloseIdleConnections()
	}
	tr := &tare.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: address}), TLSClientConfig: config}
	testkit.Fails(tr.RoundTrip(mustRequest("GET", secure.URL, nil)))(t, "407", "without a password")
}
