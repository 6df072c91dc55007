package grpctest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// largest is the size of the largest message of a test.
const largest = 8 << 20

// site is a gRPC server that tare serves, and a client.
type site struct {
	*testing.T
	conn   *grpc.ClientConn
	client grpc_testing.TestServiceClient

	mu     sync.Mutex
	served map[string]int // by version, and whether a shard has served it
}

// everyKind runs a test with and without TLS, on shards and on the goroutine path.
func everyKind(t *testing.T, test func(*site)) {
	for _, secure := range []bool{false, true} {
		for _, path := range []string{"shard", "goroutine"} {
			t.Run(fmt.Sprintf("%s tls=%v", path, secure), func(t *testing.T) {
				s := start(t, secure, path)
				test(s)
				s.mu.Lock()
				defer s.mu.Unlock()
				if want := "HTTP/2.0 " + path; len(s.served) != 1 || s.served[want] == 0 {
					t.Errorf("served %v, want %s", s.served, want)
				}
			})
		}
	}
}

// start starts a server. The connections of a listener of an unknown type take the goroutine path.
func start(t *testing.T, secure bool, path string) *site {
	service := grpc.NewServer(grpc.MaxRecvMsgSize(largest + 1<<10))
	grpc_testing.RegisterTestServiceServer(service, interop.NewTestServer())
	s := &site{T: t, served: make(map[string]int)}
	server := tare.Wrap(&http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			s.note(r)
			service.ServeHTTP(w, r)
		})})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	address, listener := l.Addr().String(), l
	if path == "goroutine" {
		listener = struct{ net.Listener }{l}
	}
	served := make(chan error)
	security := insecure.NewCredentials()
	if secure {
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetHTTP2(true)
		server.TLSConfig = &tls.Config{Certificates: certificates()}
		security = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
		go func() { served <- server.ServeTLS(listener, "", "") }()
	} else {
		server.Protocols.SetUnencryptedHTTP2(true)
		go func() { served <- server.Serve(listener) }()
	}
	s.conn, err = grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(security),
		grpc.WithUserAgent(""), // sends a value that begins with a space
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest+1<<10)))
	testkit.Must(t, err)
	s.client = grpc_testing.NewTestServiceClient(s.conn)
	t.Cleanup(func() {
		s.conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		testkit.Check(t, server.Shutdown(ctx))
		<-served
	})
	return s
}

// certificates returns those of package httptest.
func certificates() []tls.Certificate {
	borrowed := httptest.NewUnstartedServer(nil)
	borrowed.StartTLS()
	defer borrowed.Close()
	return borrowed.TLS.Certificates
}

// note counts by what a request is served. A stack contains the function that started its
// goroutine.
func (s *site) note(r *http.Request) {
	stack := make([]byte, 64<<10)
	stack = stack[:runtime.Stack(stack, false)]
	path := "goroutine"
	if bytes.Contains(stack, []byte("/internal/engine/shard.")) {
		path = "shard"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[r.Proto+" "+path]++
}

// gRPC's interoperability tests. They end the process if they fail.
func TestInteroperabilityTestsPass(t *testing.T) {
	everyKind(t, func(s *site) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for name, test := range map[string]func(){
			"empty_unary":        func() { interop.DoEmptyUnaryCall(ctx, s.client) },
			"large_unary":        func() { interop.DoLargeUnaryCall(ctx, s.client) },
			"client_streaming":   func() { interop.DoClientStreaming(ctx, s.client) },
			"server_streaming":   func() { interop.DoServerStreaming(ctx, s.client) },
			"ping_pong":          func() { interop.DoPingPong(ctx, s.client) },
			"empty_stream":       func() { interop.DoEmptyStream(ctx, s.client) },
			"timeout":            func() { interop.DoTimeoutOnSleepingServer(ctx, s.client) },
			"cancel_after_begin": func() { interop.DoCancelAfterBegin(ctx, s.client) },
			"cancel_after_first": func() { interop.DoCancelAfterFirstResponse(ctx, s.client) },
			"custom_metadata":    func() { interop.DoCustomMetadata(ctx, s.client) },
			"status_code":        func() { interop.DoStatusCodeAndMessage(ctx, s.client) },
			"special_status":     func() { interop.DoSpecialStatusMessage(ctx, s.client) },
			"unimplemented":      func() { interop.DoUnimplementedMethod(ctx, s.conn) },
			"unimplemented_other": func() {
				interop.DoUnimplementedService(ctx, grpc_testing.NewUnimplementedServiceClient(s.conn))
			},
		} {
			s.Run(name, func(*testing.T) { test() })
		}
	})
}

// Many calls of each kind at the same time receive their own messages, also if others are canceled.
func TestConcurrentCallsReceiveTheirOwnMessages(t *testing.T) {
	everyKind(t, func(s *site) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				for j := range 10 {
					if (i+j)%3 == 0 {
						s.canceled(ctx)
					}
					s.echoes(ctx, 1+i*100, 5)
				}
			})
		}
		callers.Wait()
	})
}

// echoes sends messages over a stream, each after the response to the one before.
func (s *site) echoes(ctx context.Context, size, n int) {
	stream, err := s.client.FullDuplexCall(ctx)
	if err != nil {
		s.Error(err)
		return
	}
	for range n {
		if err = stream.Send(echo(size)); err != nil {
			break
		}
		var response *grpc_testing.StreamingOutputCallResponse
		if response, err = stream.Recv(); err != nil {
			break
		}
		if got := len(response.Payload.Body); got != size {
			s.Errorf("got %d bytes, want %d", got, size)
		}
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if _, end := stream.Recv(); err != nil || !errors.Is(end, io.EOF) {
		s.Error(err, end)
	}
}

// echo returns a request for a response of a size, and of that size itself.
func echo(size int) *grpc_testing.StreamingOutputCallRequest {
	return &grpc_testing.StreamingOutputCallRequest{
		ResponseParameters: []*grpc_testing.ResponseParameters{{Size: int32(size)}},
		Payload:            interop.ClientNewPayload(grpc_testing.PayloadType_COMPRESSABLE, size),
	}
}

// canceled starts a stream and cancels it after a response.
func (s *site) canceled(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.client.FullDuplexCall(ctx)
	if err == nil {
		err = stream.Send(echo(10))
	}
	if err == nil {
		_, err = stream.Recv()
	}
	cancel()
	if _, end := stream.Recv(); err != nil || status.Code(end) != codes.Canceled {
		s.Error(err, end)
	}
}

// A message may be larger than the windows, in both directions.
func TestMessagesMayExceedTheWindows(t *testing.T) {
	everyKind(t, func(s *site) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.echoes(ctx, largest, 2)
	})
}

// Calls whose deadline passes end, and others on their connection continue.
func TestExpiredCallsDoNotAffectOthers(t *testing.T) {
	everyKind(t, func(s *site) {
		s.echoes(t.Context(), 100, 1) // the connection exists
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			stream, err := s.client.FullDuplexCall(ctx)
			if err == nil {
				_, err = stream.Recv()
			}
			testkit.Equal(t, status.Code(err), codes.DeadlineExceeded)
			cancel()
		}
		s.echoes(t.Context(), 100, 1)
	})
}
