// Package front calls a gRPC server through the front and through nginx, with the same
// configuration.
package front
