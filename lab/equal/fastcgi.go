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

// The parts of FastCGI 1.0 that one request at a time takes (its section 8).
const (
	fcgiVersion = 1

	fcgiBegin  = 1
	fcgiEnd    = 3
	fcgiParams = 4
	fcgiStdin  = 5
	fcgiStdout = 6
	fcgiStderr = 7

	fcgiResponder = 1
	fcgiKeepConn  = 1 // a flag: the connection is to be kept

	fcgiID = 1 // of every request: the next begins when the last has ended
)

const (
	mostContent = 1<<16 - 1 // of a record
	mostOutput  = 16 << 20  // that is read of an answer
)

// fcgiHeader is what a record begins with (section 3.3).
type fcgiHeader struct {
	Version uint8
	Type    uint8
	ID      uint16
	Length  uint16
	Padding uint8
	_       uint8
}

// byFastCGI is byHTTP for an application that speaks FastCGI.
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

// fcgiRequest makes the records of a request without a body.
func fcgiRequest(r Request) []byte {
	path, query, _ := strings.Cut(r.Path, "?")
	name, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		name, port = r.Host, "80"
	}
	var params []byte
	for _, p := range [][2]string{ // those that nginx sends, but for what is on its disk
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
	b = append(b, 0, 0) // no padding, and a byte without a meaning
	return append(b, content...)
}

// appendLength appends the length of a name or a value (section 3.4).
func appendLength(b []byte, s string) []byte {
	if len(s) < 1<<7 {
		return append(b, byte(len(s)))
	}
	return binary.BigEndian.AppendUint32(b, 1<<31|uint32(len(s)))
}

// readOutput reads records up to the end of the request, and returns the standard
// output in them.
func readOutput(in io.Reader) ([]byte, error) {
	var output []byte
	for {
		var h fcgiHeader
		if err := binary.Read(in, binary.BigEndian, &h); err != nil {
			return nil, whole(err)
		}
		switch {
		case h.Version != fcgiVersion:
			return nil, fmt.Errorf("record of version %d: want %d", h.Version, fcgiVersion)
		case h.ID != fcgiID:
			return nil, fmt.Errorf("record of request %d: nobody asked that", h.ID)
		}
		content := make([]byte, int(h.Length)+int(h.Padding))
		if _, err := io.ReadFull(in, content); err != nil {
			return nil, whole(err)
		}
		content = content[:h.Length]
		switch h.Type {
		case fcgiStdout:
			output = append(output, content...)
		case fcgiStderr: // is for the front's log
		case fcgiEnd:
			return output, endedWell(content)
		default:
			return nil, fmt.Errorf("record of type %d: want %d, %d or %d", h.Type, fcgiStdout, fcgiStderr, fcgiEnd)
		}
		if len(output) > mostOutput {
			return nil, fmt.Errorf("more than %d bytes of output", mostOutput)
		}
	}
}

// whole says that something had to come where the end was.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// endedWell looks at the end of a request (section 5.5). What its program's exit
// status was concerns no client.
func endedWell(content []byte) error {
	if len(content) != 8 {
		return fmt.Errorf("end of %d bytes: want 8", len(content))
	}
	if status := content[4]; status != 0 {
		return fmt.Errorf("the request was refused: protocol status %d", status)
	}
	return nil
}

// parseCGI reads a CGI program's output: fields, one of which may be the status, an
// empty line, and the body (RFC 3875, section 6).
func parseCGI(output []byte, method string) (*Response, error) {
	in := textproto.NewReader(bufio.NewReader(bytes.NewReader(output)))
	fields, err := in.ReadMIMEHeader()
	if err != nil {
		return nil, whole(err)
	}
	a := &Response{Status: http.StatusOK, Header: http.Header(fields)}
	if status, ok := fields["Status"]; ok {
		code, _, _ := strings.Cut(status[0], " ")
		if a.Status, err = strconv.Atoi(code); err != nil || len(status) > 1 {
			return nil, fmt.Errorf("status %q: want one number", status)
		}
		delete(fields, "Status")
	} else if a.Header.Get("Location") != "" {
		a.Status = http.StatusFound
	}
	if a.Body, err = io.ReadAll(in.R); err != nil {
		return nil, err
	}
	length := a.Header.Get("Content-Length")
	if length == "" || length == strconv.Itoa(len(a.Body)) || method == http.MethodHead || a.Status == http.StatusNotModified {
		return a, nil
	}
	return nil, fmt.Errorf("%d bytes of body: its Content-Length says %q", len(a.Body), length)
}
