package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// callTimeout limits a call: it ends at once unless something hangs.
const callTimeout = time.Minute

// configuration is the configuration of both fronts.
const configuration = `daemon off; master_process off; pid DIR/pid; error_log DIR/error.log; worker_rlimit_nofile 1000;
events {}
http {
	access_log off;
	client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/c;
	upstream app { server PLAIN; }
	upstream two { server 127.0.0.1:1; server PLAIN; }
	upstream dead { server 127.0.0.1:1; }
	server {
		listen LISTEN http2;
		location /plain.Echo/ { grpc_pass grpc://app; grpc_set_header X-Via front; }
		location /two.Echo/ { grpc_pass two; }
		location /tls.Echo/ { grpc_pass grpcs://TLS; }
		location /short.Echo/ { grpc_pass SHORT; }
		location /dead.Echo/ { grpc_pass dead; }
		location /status.Echo/ { grpc_pass dead; error_page 502 = /unavailable; }
		location = /unavailable {
			internal; add_header content-type application/grpc; add_header grpc-status 14;
			add_header grpc-message unavailable; return 204;
		}
	}
}`

// services are the names of the application's services, by the application that has them.
var services = struct{ plain, tls, short []string }{
	[]string{"plain.Echo", "two.Echo"}, []string{"tls.Echo"}, []string{"short.Echo"},
}

// testFronts runs a test through each front, and without any.
func testFronts(t *testing.T, test func(t *testing.T, c *grpc.ClientConn, plain *application, front string)) {
	plain := startApplication(t, services.plain)
	secure := startApplication(t, services.tls, withTLS(t))
	short := startApplication(t, services.short, shortLived())
	for front, start := range map[string]func(t *testing.T, dir, path, addr string){
		"nginx": startNginx, "tare": startFront,
	} {
		t.Run(front, func(t *testing.T) {
			dir, addr := t.TempDir(), programs.FreeAddress(t)
			text := strings.NewReplacer("DIR", dir, "PLAIN", plain.addr, "TLS", secure.addr, "SHORT", short.addr,
				"LISTEN", addr).Replace(configuration)
			path := filepath.Join(dir, "nginx.conf")
			testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
			start(t, dir, path, addr)
			c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			testkit.Must(t, err)
			defer c.Close()
			test(t, c, plain, front)
		})
	}
}

func startNginx(t *testing.T, dir, path, addr string) {
	tool := programs.Nginx(t)
	programs.Start(t, "tcp", addr, tool.Env, tool.Bin, "-p", dir, "-c", path, "-e", filepath.Join(dir, "error.log"))
}

func startFront(t *testing.T, dir, path, addr string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, server.File{Path: path}, server.Options{}) }()
	t.Cleanup(func() {
		cancel()
		testkit.Check(t, <-done)
		if lines, err := os.ReadFile(filepath.Join(dir, "error.log")); err == nil && t.Failed() {
			t.Logf("the error log:\n%s", lines)
		}
	})
	awaitPort(t, addr)
}

// call calls a unary method, and returns the response and what came with it.
func call(t *testing.T, c *grpc.ClientConn, service, message string) (got string, header, trailer metadata.MD,
	err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "x-sent", "by the client"),
		callTimeout)
	defer cancel()
	out := new(wrapperspb.StringValue)
	err = c.Invoke(ctx, "/"+service+"/Unary", wrapperspb.String(message), out, grpc.Header(&header),
		grpc.Trailer(&trailer))
	return out.Value, header, trailer, err
}

func TestUnaryCallsPassTheFront(t *testing.T) {
	testFronts(t, func(t *testing.T, c *grpc.ClientConn, _ *application, front string) {
		for _, service := range []string{"plain.Echo", "two.Echo", "tls.Echo", "short.Echo"} {
			got, header, trailer, err := call(t, c, service, "hello")
			if err != nil || got != "got hello" || strings.Join(header["x-header"], "") != "by the client" ||
				strings.Join(trailer["x-trailer"], "") != "of hello" {
				t.Errorf("%s: %q %v %v %v", service, got, header, trailer, err)
			}
			if via := strings.Join(header["x-via"], ""); (via == "front") != (service == "plain.Echo") {
				t.Errorf("%s: via %q", service, via)
			}
			if got, _, _, err := call(t, c, service, "large:600000"); err != nil || len(got) != 600_000 {
				t.Errorf("%s: a large message: %d bytes, %v", service, len(got), err)
			}
			if _, _, _, err := call(t, c, service, strings.Repeat("x", 600_000)); err != nil {
				t.Errorf("%s: a large request: %v", service, err)
			}
			_, _, trailer, err = call(t, c, service, "fail")
			if status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != "it failed: 100% ü" ||
				strings.Join(trailer["x-trailer"], "") != "of fail" {
				t.Errorf("%s: an error: %v %v", service, err, trailer)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
		defer cancel()
		err := c.Invoke(ctx, "/plain.Echo/NoSuch", wrapperspb.String(""), new(wrapperspb.StringValue))
		testkit.Equal(t, status.Code(err), codes.Unimplemented, "for an unknown method")
		for _, service := range []string{"dead.Echo", "status.Echo"} {
			if _, _, _, err := call(t, c, service, "x"); status.Code(err) != codes.Unavailable {
				t.Errorf("%s: a dead server: %v", service, err)
			}
		}
	})
}

// open opens a stream in both directions.
func open(t *testing.T, ctx context.Context, c *grpc.ClientConn, service string) grpc.ClientStream {
	t.Helper()
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+service+"/Stream")
	testkit.Must(t, err)
	return s
}

// exchange sends a message and receives the response.
func exchange(s grpc.ClientStream, message string) (string, error) {
	if err := s.SendMsg(wrapperspb.String(message)); err != nil {
		return "", err
	}
	out := new(wrapperspb.StringValue)
	err := s.RecvMsg(out)
	return out.Value, err
}

// Messages pass in both directions at the same time, and the head before any message.
func TestStreams(t *testing.T) {
	testFronts(t, func(t *testing.T, c *grpc.ClientConn, a *application, front string) {
		for _, service := range []string{"plain.Echo", "tls.Echo"} {
			ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
			defer cancel()
			s := open(t, ctx, c, service)
			if header, err := s.Header(); err != nil || strings.Join(header["x-early"], "") != "yes" {
				t.Fatalf("%s: the head before a message: %v %v", service, header, err)
			}
			for i := range 50 {
				message := fmt.Sprint(i, strings.Repeat("x", i*100))
				if got, err := exchange(s, message); err != nil || got != "got "+message {
					t.Fatalf("%s: message %d: %d bytes, %v", service, i, len(got), err)
				}
			}
			testkit.Must(t, s.CloseSend())
			if err := s.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) ||
				strings.Join(s.Trailer()["x-trailer"], "") != "of the stream" {
				t.Errorf("%s: the end: %v %v", service, err, s.Trailer())
			}
			s = open(t, ctx, c, service)
			testkit.Value(exchange(s, "one"))(t)
			if _, err := exchange(s, "end"); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("%s: an error in the middle: %v", service, err)
			}
		}
	})
}

func TestCanceledCallEndsAtTheApplication(t *testing.T) {
	testFronts(t, func(t *testing.T, c *grpc.ClientConn, a *application, _ string) {
		for _, message := range []string{"hang", "idle"} {
			ctx, cancel := context.WithCancel(t.Context())
			s := open(t, ctx, c, "plain.Echo")
			testkit.Value(exchange(s, "one"))(t)
			if message == "hang" {
				testkit.Must(t, s.SendMsg(wrapperspb.String(message)))
			}
			cancel()
			testkit.Receive(t, a.canceled, "a canceled call at the application, after", message)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // in which the call arrives
		defer cancel()
		s := open(t, ctx, c, "plain.Echo")
		// the application knows the deadline, too, and may have reset the stream before
		testkit.Fails(exchange(s, "hang"))(t, "", "a call after its deadline")
		testkit.Receive(t, a.canceled, "a call at the application whose deadline passed")
	})
}

// No call fails while the application closes connections by GOAWAY all the time.
func TestCallsSurviveGoAway(t *testing.T) {
	testFronts(t, func(t *testing.T, c *grpc.ClientConn, _ *application, front string) {
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for i := range 100 {
					message := fmt.Sprint(worker, " ", i)
					if got, _, _, err := call(t, c, "short.Echo", message); err != nil || got != "got "+message {
						t.Errorf("%s: %q %v", message, got, err)
						return
					}
				}
			})
		}
		all.Wait()
	})
}
