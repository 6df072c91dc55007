// Package engines is what the benchmarks of HTTP engines in the folders below have in
// common: what is asked, and the check of every answer. They carry the names of those in
// fasthttp's README, and repeat what those measure.
//
// ServerGet has no sockets: requests come pipelined from memory, so that what is left is
// to parse, to handle and to format, and with few requests on a connection also to accept
// it. The client benchmarks ask a server of the client's own library, over loopback TCP or
// in memory, so that they measure both. DoFastServer asks nobody: answers are there at
// once.
//
// This is a module of its own because fasthttp's version is the one that the published
// benchmarks were last part of.
package engines
