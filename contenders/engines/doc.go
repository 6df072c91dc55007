// Package engines is shared by the benchmarks of HTTP engines in the folders below. It has their
// requests, and checks every response. The benchmarks have the names of those in fasthttp's README
// and repeat them.
//
// ServerGet has no sockets: it reads pipelined requests from memory. It measures parsing, handling
// and formatting, and with few requests on a connection also accepting. The client benchmarks use a
// server of the client's own library, over loopback TCP or in memory, and measure both.
// DoFastServer has no server: responses are available at once.
//
// This is a module of its own, because its version of fasthttp is the last one with the published
// benchmarks.
package engines
