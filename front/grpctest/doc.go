// Package grpctest calls a gRPC server through the front and through nginx, with the same
// configuration. It is a module of its own, so that the project does not depend on gRPC.
package grpctest
