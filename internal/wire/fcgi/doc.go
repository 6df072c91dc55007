// Package fcgi is the grammar of FastCGI 1.0: bytes in, records, offsets and values out.
//
// As in package http1, nothing here reads, writes, waits or keeps a connection. Bytes may arrive in
// any pieces: the records and the error are the same whole, byte by byte or cut anywhere.
//
// # Glossary
//
//   - record: a header of eight bytes, content, and padding.
//   - stream: the records of one type and request, ended by an empty one. PARAMS, STDIN and DATA go
//     to the application, STDOUT and STDERR to the web server.
//   - message: a record of any other type, complete by itself: BEGIN_REQUEST, ABORT_REQUEST,
//     END_REQUEST, and those about the connection (id 0), GET_VALUES, GET_VALUES_RESULT and
//     UNKNOWN_TYPE.
//   - piece: a message, or the part of a stream's record that has arrived.
//   - parameter: a name-value pair of PARAMS; all of them are the list.
//
// Sections named in comments are those of the FastCGI Specification, version 1.0 of 29 April 1996.
package fcgi
