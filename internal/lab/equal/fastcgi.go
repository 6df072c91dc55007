package equal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// The parts of FastCGI 1.0 for one request at a time (section 8 of its specification).
const (
	fcgiVersion = 1

	fcgiBegin  = 1
	fcgiEnd    = 3
	fcgiParams = 4
	fcgiStdin  = 5
	fcgiStdout = 6
	fcgiStderr = 7

	fcgiResponder = 1
	fcgiKeepConn  = 1 // flag: keep the connection

	fcgiID = 1 // of every request: only one is active
)

const (
	mostContent = 1<<16 - 1 // of a record
	mostOutput  = 16 << 20  // of a response
)

// fcgiHeader is the header of a record (section 3.3).
type fcgiHeader struct {
	Version uint8
	Type    uint8
	ID      uint16
	Length  uint16
	Padding uint8
	_       uint8
}

func byFastCGI(out io.Writer, in *bufio.Reader, r Request) (*Response, error) {
	if _, err := out.Write(fcgiRequest(r)); err != nil {
		return nil, err
	}
	output, err := readOutput(in)
	if err != nil {
		return nil, fmt.Errorf("FastCGI: %w", err)
	}
	a, err := parseCGI(output, r.Method)
	if err != nil {
		return nil, fmt.Errorf("FastCGI: output %.60q: %w", output, err)
	}
	return a, nil
}

// fcgiRequest returns the records of a request without a body.
func fcgiRequest(r Request) []byte {
	path, query, _ := strings.Cut(r.Path, "?")
	name, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		name, port = r.Host, "80"
	}
	var params []byte
	for _, p := range [][2]string{ // those that nginx sends, without paths of its disk
		{"QUERY_STRING", query}, {"REQUEST_METHOD", r.Method}, {"CONTENT_TYPE", ""}, {"CONTENT_LENGTH", ""},
		{"SCRIPT_NAME", path}, {"REQUEST_URI", r.Path}, {"DOCUMENT_URI", path}, {"SERVER_PROTOCOL", "HTTP/1.1"},
		{"REQUEST_SCHEME", "http"}, {"GATEWAY_INTERFACE", "CGI/1.1"}, {"SERVER_SOFTWARE", "tare"},
		{"REMOTE_ADDR", "127.0.0.1"}, {"REMOTE_PORT", "1"}, {"SERVER_ADDR", "127.0.0.1"}, {"SERVER_PORT", port},
		{"SERVER_NAME", name}, {"HTTP_HOST", r.Host},
	} {
		params = appendLength(appendLength(params, p[0]), p[1])
		params = append(append(params, p[0]...), p[1]...)
	}
	b := appendRecord(nil, fcgiBegin, []byte{0, fcgiResponder, fcgiKeepConn, 0, 0, 0, 0, 0})
	for part := range slices.Chunk(params, mostContent) {
		b = appendRecord(b, fcgiParams, part)
	}
	b = appendRecord(b, fcgiParams, nil)
	return appendRecord(b, fcgiStdin, nil)
}

// appendRecord appends a record with at most mostContent bytes of content.
func appendRecord(b []byte, kind uint8, content []byte) []byte {
	b = append(b, fcgiVersion, kind, 0, fcgiID)
	b = binary.BigEndian.AppendUint16(b, uint16(len(content)))
	b = append(b, 0, 0) // no padding, and a reserved byte
	return append(b, content...)
}

// appendLength appends the length of a name or a value (section 3.4).
func appendLength(b []byte, s string) []byte {
	if len(s) < 1<<7 {
		return append(b, byte(len(s)))
	}
	return binary.BigEndian.AppendUint32(b, 1<<31|uint32(len(s)))
}

// readOutput reads records to the end of the request and returns their standard output.
func readOutput(in io.Reader) ([]byte, error) {
	var output []byte
	for {
		var h fcgiHeader
		if err := binary.Read(in, binary.BigEndian, &h); err != nil {
			return nil, unexpectedEOF(err)
		}
		switch {
		case h.Version != fcgiVersion:
			return nil, fmt.Errorf("record of version %d: want %d", h.Version, fcgiVersion)
		case h.ID != fcgiID:
			return nil, fmt.Errorf("record of unknown request %d", h.ID)
		}
		content := make([]byte, int(h.Length)+int(h.Padding))
		if _, err := io.ReadFull(in, content); err != nil {
			return nil, unexpectedEOF(err)
		}
		content = content[:h.Length]
		switch h.Type {
		case fcgiStdout:
			output = append(output, content...)
		case fcgiStderr: // belongs to the front's log
		case fcgiEnd:
			return output, checkEnd(content)
		default:
			return nil, fmt.Errorf("record of type %d: want %d, %d or %d", h.Type, fcgiStdout, fcgiStderr, fcgiEnd)
		}
		if len(output) > mostOutput {
			return nil, fmt.Errorf("more than %d bytes of output", mostOutput)
		}
	}
}

// unexpectedEOF replaces io.EOF, because more data was required.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkEnd checks the end of a request (section 5.5). The program's exit status does not concern
// clients.
func checkEnd(content []byte) error {
	if len(content) != 8 {
		return fmt.Errorf("end record of %d bytes: want 8", len(content))
	}
	if status := content[4]; status != 0 {
		return fmt.Errorf("the application rejected the request: protocol status %d", status)
	}
	return nil
}

// parseCGI parses the output of a CGI program: header fields, an optional Status field among them,
// an empty line, and the body (RFC 3875, 6).
func parseCGI(output []byte, method string) (*Response, error) {
	in := textproto.NewReader(bufio.NewReader(bytes.NewReader(output)))
	fields, err := in.ReadMIMEHeader()
	if err != nil {
		return nil, unexpectedEOF(err)
	}
	a := &Response{Status: http.StatusOK, Header: http.Header(fields)}
	if status, ok := fields["Status"]; ok {
		code, _, _ := strings.Cut(status[0], " ")
		if a.Status, err = strconv.Atoi(code); err != nil || len(status) > 1 {
			return nil, fmt.Errorf("invalid Status %q: want one number", status)
		}
		delete(fields, "Status")
	} else if a.Header.Get("Location") != "" {
		a.Status = http.StatusFound
	}
	if a.Body, err = io.ReadAll(in.R); err != nil {
		return nil, err
	}
	length := a.Header.Get("Content-Length")
	if length == "" || length == strconv.Itoa(len(a.Body)) || method == http.MethodHead ||
		a.Status == http.StatusNotModified {
		return a, nil
	}
	return nil, fmt.Errorf("body of %d bytes, but Content-Length is %q", len(a.Body), length)
}
