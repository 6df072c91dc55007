package front

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// application is a gRPC server with the same methods under several names of services.
type application struct {
	addr     string
	server   *grpc.Server
	canceled chan string // what handlers have seen of calls that were canceled
}

// startApplication starts an application, with TLS if cert is not nil.
func startApplication(t *testing.T, services []string, options ...grpc.ServerOption) *application {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	a := &application{addr: l.Addr().String(), server: grpc.NewServer(options...), canceled: make(chan string, 100)}
	for _, name := range services {
		a.server.RegisterService(&grpc.ServiceDesc{
			ServiceName: name, HandlerType: (*any)(nil),
			Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: a.unary}},
			Streams: []grpc.StreamDesc{
				{StreamName: "Stream", Handler: a.stream, ServerStreams: true, ClientStreams: true},
			},
		}, a)
	}
	done := make(chan error, 1)
	go func() { done <- a.server.Serve(l) }()
	t.Cleanup(func() {
		a.server.Stop()
		testkit.Check(t, <-done)
	})
	return a
}

// withTLS returns the option of a server with a certificate of its own.
func withTLS(t *testing.T) grpc.ServerOption {
	t.Helper()
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"app.example"}})
	pair := testkit.Value(tls.X509KeyPair(cert, key))(t)
	return grpc.Creds(credentials.NewServerTLSFromCert(&pair))
}

// shortLived is the option of a server that closes connections by GOAWAY all the time.
func shortLived() grpc.ServerOption {
	return grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: time.Minute,
	})
}

// unary responds with the request. "fail" is an error with details in its message, "large:N" a
// message of N bytes. A header and a trailer field are those of the request.
func (a *application) unary(_ any, ctx context.Context, decode func(any) error,
	_ grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.StringValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	fields, _ := metadata.FromIncomingContext(ctx)
	if err := grpc.SetHeader(ctx, metadata.Pairs("x-header", strings.Join(fields["x-sent"], " "),
		"x-via", strings.Join(fields["x-via"], " "))); err != nil {
		return nil, err
	}
	if err := grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "of "+in.Value[:min(len(in.Value), 20)])); err != nil {
		return nil, err
	}
	var n int
	if _, err := fmt.Sscanf(in.Value, "large:%d", &n); err == nil {
		return wrapperspb.String(strings.Repeat("x", n)), nil
	}
	if in.Value == "fail" {
		return nil, status.Error(codes.FailedPrecondition, "it failed: 100% ü")
	}
	return wrapperspb.String("got " + in.Value), nil
}

// stream sends a header field at once, and responds to each message. "end" ends the stream with an
// error, "hang" waits for the end of the call.
func (a *application) stream(_ any, s grpc.ServerStream) error {
	if err := s.SendHeader(metadata.Pairs("x-early", "yes")); err != nil {
		return err
	}
	for {
		in := new(wrapperspb.StringValue)
		switch err := s.RecvMsg(in); {
		case errors.Is(err, io.EOF):
			s.SetTrailer(metadata.Pairs("x-trailer", "of the stream"))
			return nil
		case err != nil:
			a.canceled <- status.Code(err).String()
			return err
		}
		switch in.Value {
		case "end":
			return status.Error(codes.ResourceExhausted, "enough")
		case "hang":
			<-s.Context().Done()
			a.canceled <- "done"
			return s.Context().Err()
		}
		if err := s.SendMsg(wrapperspb.String("got " + in.Value)); err != nil {
			return err
		}
	}
}

// awaitPort waits until something listens at an address.
func awaitPort(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(callTimeout); ; time.Sleep(5 * time.Millisecond) {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
