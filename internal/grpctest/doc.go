// Package grpctest runs gRPC's own interoperability tests over tare's server. It has only tests.
//
// gRPC uses HTTP/2 as few other clients do: responses without a length that end with trailers,
// bodies in both directions at the same time, deadlines, and streams that the client resets.
// grpc.Server.ServeHTTP makes a gRPC server an http.Handler.
//
// This is a module of its own, so that tare does not depend on gRPC.
package grpctest
