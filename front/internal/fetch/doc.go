// Package fetch sends requests to groups of servers, and receives their responses: connections,
// TLS, timeouts, retries on other servers, HTTP/1, HTTP/2 and FastCGI.
//
// It knows neither a configuration's locations nor the client's exchange: a Request has all that
// Upstream.Do needs. Its Observer learns what happens before the response.
//
// Words of this package:
//
//   - attempt: one try of a Request on one server.
//   - pending: an attempt that is too young for timers of its own.
//   - tunnel: the two connections of a request that has switched protocols.
//   - relay: event loops that forward tunnels between two sockets; Linux.
package fetch
