// Package fcgi is the grammar of FastCGI 1.0: bytes in, records, offsets and values out.
//
// As in package http1 nothing here reads, writes, waits or remembers a connection. Bytes
// may arrive in any pieces: whole, byte by byte or cut anywhere, they give the same
// records and the same error.
//
// # Terms
//
// A record is a header of eight bytes, content, and padding that means nothing. The records
// of one type and request are a stream, which an empty one ends: PARAMS, STDIN, DATA from
// the web server to the application, STDOUT and STDERR back. The other types are messages
// of one record: BEGIN_REQUEST, ABORT_REQUEST, END_REQUEST, and those about the connection
// (id 0), GET_VALUES, GET_VALUES_RESULT and UNKNOWN_TYPE.
//
// What the sections named in comments say is the FastCGI Specification's, version 1.0 of
// 29 April 1996.
package fcgi
