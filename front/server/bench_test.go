package server_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// BenchmarkRead reads, compiles and checks configurations with ten locations in each server, as
// tare serve -t does. Time and bytes per location must not depend on the number of servers.
func BenchmarkRead(b *testing.B) {
	for _, bm := range []struct{ name, location string }{
		{"proxy", "proxy_pass http://app; proxy_set_header Host $host; client_max_body_size %[1]dm; " +
			"proxy_read_timeout 1%[1]ds;"},
		{"return", "return 200 %d;"},
	} {
		for _, servers := range []int{200, 2000} {
			b.Run(fmt.Sprintf("%s/servers=%d", bm.name, servers), func(b *testing.B) {
				benchmarkRead(b, servers, 10, bm.location)
			})
		}
	}
}

func benchmarkRead(b *testing.B, servers, locations int, location string) {
	var text strings.Builder
	text.WriteString("events {}\nhttp {\nupstream app { server 127.0.0.1:9001; }\n")
	for i := range servers {
		fmt.Fprintf(&text, "server {\nlisten 8080;\nserver_name s%d.example.com;\n", i)
		for j := range locations {
			fmt.Fprintf(&text, "location /%d/ { "+location+" }\n", j)
		}
		text.WriteString("}\n")
	}
	text.WriteString("}\n")
	source := server.File{Path: "nginx.conf", Options: nginxconf.Options{Prefix: "/srv",
		FS: fstest.MapFS{"nginx.conf": &fstest.MapFile{Data: []byte(text.String())}}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		testkit.Must(b, server.Check(source, server.Options{Stdout: io.Discard, Stderr: io.Discard}))
	}
	runtime.ReadMemStats(&after)
	all := float64(b.N * servers * locations)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/location")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/all, "B/location")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/all, "allocs/location")
}

// benchConfig is an nginx.conf with a location for each kind of content. Its verbs are the
// addresses of an HTTP and of a FastCGI application, and those that it listens on.
const benchConfig = `
events {}
http {
	keepalive_requests 1000000000;
	upstream app { server %s; keepalive 64; }
	upstream responder { server %s; keepalive 64; }
	server {
		listen %s;
		listen %s ssl;
		ssl_certificate pair.pem;
		ssl_certificate_key pair.pem;
		root .;
		location = /proxy { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
		location = /fastcgi {
			fastcgi_param REQUEST_METHOD $request_method;
			fastcgi_param REQUEST_URI $request_uri;
			fastcgi_param QUERY_STRING $query_string;
			fastcgi_param SERVER_PROTOCOL $server_protocol;
			fastcgi_param REMOTE_ADDR $remote_addr;
			fastcgi_keep_conn on;
			fastcgi_pass responder;
		}
		location = /bound { proxy_pass http://bound; }
	}
}`

// BenchmarkServe serves requests of 64 connections for each kind of content. "make pgo" profiles
// it: the compiler optimizes the command for what takes time here.
func BenchmarkServe(b *testing.B) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "Hello World\n")
	})
	app, responder, plain, secure := benchListen(b), benchListen(b), benchListen(b), benchListen(b)
	go http.Serve(app, hello)
	go fcgi.Serve(responder, hello)
	dir, conf := b.TempDir(), fmt.Sprintf(benchConfig, app.Addr(), responder.Addr(), plain.Addr(), secure.Addr())
	cert, key := tlstest.SelfSign(b, x509.Certificate{DNSNames: []string{"localhost"}})
	for name, content := range map[string][]byte{"nginx.conf": []byte(conf), "pair.pem": append(cert, key...),
		"file": make([]byte, 3500)} {
		testkit.Must(b, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	run(b, filepath.Join(dir, "nginx.conf"), server.Options{Listeners: []net.Listener{plain, secure}},
		server.Bind("bound", hello))
	for _, name := range []string{"proxy", "fastcgi", "bound", "file"} {
		b.Run(name, func(b *testing.B) { benchRequests(b, plain.Addr().String(), "/"+name, nil) })
	}
	b.Run("tls", func(b *testing.B) {
		benchRequests(b, secure.Addr().String(), "/file", &tls.Config{InsecureSkipVerify: true})
	})
}

func benchListen(b *testing.B) net.Listener {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(b)
	b.Cleanup(func() { l.Close() })
	return l
}

// benchRequests sends requests for a path on 64 connections, each after the last response.
func benchRequests(b *testing.B, addr, path string, secure *tls.Config) {
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	b.SetParallelism(max(64/runtime.GOMAXPROCS(0), 1))
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		if secure != nil {
			c = tls.Client(c, secure)
		}
		for r := bufio.NewReader(c); pb.Next(); {
			if err := benchRequest(c, r, request); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func benchRequest(c net.Conn, r *bufio.Reader, request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
