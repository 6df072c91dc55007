// Package fcgiclient asks FastCGI applications: what stands behind fcgi.Transport.
//
// A request has a connection to itself. The goroutine that calls RoundTrip writes it and then reads the
// response; a body that is long is sent by a second one, so that the response may come before it has ended. What the
// parameters are is the caller's business: all of them, or what a Client's Describe says.
package fcgiclient
