// Package fastcgi is the codec of FastCGI: it connects the grammar of package wire/fcgi with
// exchanges.
//
// A request begins with its parameters (request.go). Its body, STDIN, may be mixed with records
// that concern the connection (body.go). Its response is STDOUT (codec.go). Handlers
// also reach parameters and STDERR, and the web server may abort a request while its handler runs
// (extras.go).
package fastcgi
