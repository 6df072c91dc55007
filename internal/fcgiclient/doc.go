// Package fcgiclient sends requests to FastCGI applications. fcgi.Transport and the front use it.
//
// Each request has a connection to itself. The goroutine that calls RoundTrip writes the request
// and then reads the response. A second goroutine sends a long body, so that the application may
// respond before the body ends. The caller sets the parameters of a request, by Config.Describe or
// Options.Describe.
//
// An exchange, which is one attempt, passes through these states:
//
//	sending     the message is being sent, then the body (exchange.progress)
//	receiving   the goroutine of RoundTrip reads the response's head
//	body        the caller reads the response's body
//	ended       the connection is kept, closed, or left to the sender
//
// It ends exactly once (see exchange.end): at the end of the request (END_REQUEST), when its
// context ends, when the caller closes the body, or when an error occurs.
//
// A message here is the encoded form of a request: BEGIN_REQUEST, the parameters and a small body.
package fcgiclient
