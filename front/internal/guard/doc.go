// Package guard decides which requests are served: limits, addresses, passwords, applications that
// decide, referers, and links that prove who made them. It has the variables of client certificates.
package guard
