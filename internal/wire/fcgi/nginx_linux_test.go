package fcgi_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

var capture = flag.Bool("capture", false, "keep in testdata what nginx sends")

// nginxConf is the configuration of a test's nginx: one worker, which uses only the test's
// directory. The parameters are the path of fastcgi_params, whether connections are kept, the
// addresses of the application and of nginx, and the user of the worker.
const nginxConf = `
%[5]s
daemon off;
error_log stderr warn;
pid nginx.pid;
events {}
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	upstream application {
		server %[3]s;
		keepalive 4;
	}
	server {
		listen %[4]s;
		root /srv/www;
		location / {
			include "%[1]s/fastcgi_params";
			fastcgi_keep_conn %[2]s;
			fastcgi_pass application;
		}
	}
}
`

// startNginx starts nginx in front of an application and returns its address. nginx inherits its
// listening socket, as in an upgrade, so that the test need not wait for it.
func startNginx(t *testing.T, application string, keep bool) string {
	t.Helper()
	tool := programs.Nginx(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	dir, kept, user := t.TempDir(), "off", ""
	if keep {
		kept = "on"
	}
	if os.Geteuid() == 0 {
		user = "user root;" // other users may not see the directory
	}
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(nginxConf, tool.Etc, kept, application, l.Addr(), user)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(tool.Bin, "-e", "stderr", "-p", dir, "-c", conf)
	cmd.Env = append(append(os.Environ(), tool.Env...), "NGINX=3;")
	cmd.Stderr, cmd.ExtraFiles = &log, []*os.File{socket}
	nginx := testkit.Start(t, cmd)
	t.Cleanup(func() {
		nginx.End(t)
		if !strings.Contains(log.String(), logLine) {
			t.Errorf("nginx logged nothing of the application's: %s", log.String())
		}
	})
	return l.Addr().String()
}

// An application responds to nginx.
type application struct {
	net.Listener
	requests chan *received
	accepted atomic.Int32
	serving  sync.WaitGroup
}

func startApplication(t *testing.T) *application {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &application{Listener: l, requests: make(chan *received, 16)}
	a.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			a.accepted.Add(1)
			a.serving.Go(func() {
				defer c.Close()
				if err := serve(c, a.requests); err != nil {
					t.Error(err)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		a.serving.Wait()
	})
	return a
}

// serve responds to the requests of a connection until it ends.
func serve(c net.Conn, requests chan *received) error {
	var r receiver
	b := make([]byte, 5000)
	for {
		n, err := c.Read(b)
		if err != nil {
			return nil //nolint:nilerr // nginx closed it
		}
		some, err := r.receive(b[:n])
		if err != nil {
			return err
		}
		for _, x := range some {
			requests <- x
			if _, err := c.Write(respond(x)); err != nil {
				return err
			}
			if !x.keep {
				return nil
			}
		}
	}
}

// The package reads what nginx sends, and nginx reads what the package writes.
func TestNginxUnderstandsRecords(t *testing.T) {
	cases := append(nginxCases(),
		nginxCase{name: "large", method: "PUT", target: "/large",
			fields: [][2]string{{"X-Long", strings.Repeat("long ", 600) + "."}},
			body:   strings.Repeat("0123456789", 10000)})
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep=%v", keep), func(t *testing.T) {
			a := startApplication(t)
			client, err := net.Dial("tcp", startNginx(t, a.Addr().String(), keep))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_ = client.SetDeadline(time.Now().Add(time.Minute))
			from := bufio.NewReader(client)
			for _, c := range cases {
				if _, err := io.WriteString(client, c.request()); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(from, nil)
				if err != nil {
					t.Fatal(err)
				}
				page, err := io.ReadAll(resp.Body)
				if resp.StatusCode != http.StatusCreated || err != nil {
					t.Fatalf("%s: %s, %q, %v", c.name, resp.Status, page, err)
				}
				x := <-a.requests
				if c.check(t, x, keep); resp.Header.Get("X-Application") != "tare" || string(page) != x.response() {
					t.Errorf("%s: %v, %q", c.name, resp.Header, page)
				}
				if file := captured(&c, keep); *capture && c.name != "large" {
					if err := os.WriteFile(file, x.raw, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := len(cases)
			if keep {
				want = 1
			}
			if n := int(a.accepted.Load()); n != want {
				t.Errorf("%d connections for %d requests", n, len(cases))
			}
		})
	}
}
