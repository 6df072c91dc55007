// Package dns resolves names by DNS servers that the caller chooses, and reports how long addresses
// are valid. The resolver of package net does not report that.
//
// A lookup sends a query for IPv4 and one for IPv6 at the same time. Each query goes to one server
// after another until one responds. It has a socket of its own, so a random port, and a random
// identifier; packets other than the response to it are ignored (RFC 5452). A response that does
// not fit into a packet is requested again over TCP. Chains of CNAME records are followed.
//
// Nothing is cached: the caller keeps addresses for as long as they are valid.
package dns
