// Package guard decides which requests are served: limits, addresses, passwords, applications that
// decide, referers, and secure links. It has the variables of client certificates.
package guard
