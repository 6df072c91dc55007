// Package h2 is the client's side of HTTP/2 connections (RFC 9113): frames, streams, windows,
// settings and timers. It does not know pools, dialing or http.Request.
package h2
