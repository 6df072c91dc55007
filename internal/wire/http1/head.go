package http1

import "bytes"

// Span is a part of a head: the bytes from Start to End of the input.
type Span struct{ Start, End uint32 }

// SpanOf returns the Span between two offsets.
func SpanOf(start, end int) Span { return Span{uint32(start), uint32(end)} }

// In returns the part of b that s covers. The result aliases b.
func (s Span) In(b []byte) []byte { return b[s.Start:s.End] }

// Of is In for a string that contains the same bytes.
func (s Span) Of(head string) string { return head[s.Start:s.End] }

// Field is one field line. Value has no space around it.
type Field struct {
	Name, Value Span
	Known       Name
}

// Limits limits a head or a trailer section.
type Limits struct {
	Bytes  int // of the whole section, including line ends
	Fields int // field lines
	Line   int // of a line, including its end; 0 for no limit of its own
}

// Head is what requests and responses have in common: everything except the first line. Reset
// reuses the memory of Fields. A Span is valid as long as the input is.
type Head struct {
	Fields []Field
	Minor  int // the x of HTTP/1.x
	Size   int // bytes of the whole head, including its empty line; set once it is complete

	section section
	lines
	facts
}

// section is what field lines belong to. It decides about the fields of restricted names: see Name.
type section uint8

const (
	ofMessage        section = iota
	ofCGI                    // restricted fields have no meaning, except for Content-Length
	inTrailer                // they are errors
	inLenientTrailer         // they are dropped
)

func (h *Head) reset() { *h = Head{Fields: h.Fields[:0]} }

// lines finds line ends in input that may be incomplete. 0 <= next <= seen.
type lines struct {
	next int // start of the next line
	seen int // bytes before this offset contain no unconsumed LF
	ends lineEnds
}

// lineEnds is how lines may end.
type lineEnds uint8

const (
	endInCRLF lineEnds = iota
	endInLF            // all of them: no other reader of the head finds fewer lines
	endInAny
)

// nextLine returns the bounds of the next complete line, without its CRLF.
func (l *lines) nextLine(b []byte, limits Limits) (start, end int, ok bool, err error) {
	i := bytes.IndexByte(b[l.seen:], '\n')
	if i < 0 {
		if l.seen = len(b); len(b) >= limits.Bytes {
			return 0, 0, false, fault(TooLarge, limits.Bytes, "section too large")
		}
		return 0, 0, false, l.checkLine(limits, len(b))
	}
	lf := l.seen + i
	if lf >= limits.Bytes {
		return 0, 0, false, fault(TooLarge, limits.Bytes, "section too large")
	}
	if err := l.checkLine(limits, lf+1); err != nil {
		return 0, 0, false, err
	}
	start, end = l.next, lf
	switch hasCR := lf > start && b[lf-1] == '\r'; {
	case !hasCR && l.ends == endInCRLF:
		return 0, 0, false, malformed(lf, "LF without CR")
	case hasCR && l.ends == endInLF:
		return 0, 0, false, malformed(lf, "CRLF after a line that ends in LF")
	case hasCR:
		end--
	}
	l.next, l.seen = lf+1, lf+1
	return start, end, true, nil
}

func (l Limits) line() int {
	if l.Line > 0 {
		return l.Line
	}
	return l.Bytes
}

// checkLine returns an error if the current line, which extends at least to an offset, is too long.
func (l *lines) checkLine(limits Limits, end int) error {
	if end-l.next > limits.line() {
		return fault(TooLarge, l.next+limits.Line, "line too long")
	}
	return nil
}

func (h *Head) parseFields(b []byte, limits Limits) (complete bool, err error) {
	for {
		if err := h.plainFields(b, limits); err != nil {
			return false, err
		}
		start, end, ok, err := h.nextLine(b, limits)
		if err != nil || !ok {
			return false, err
		}
		if start == end {
			h.Size = h.next
			return true, nil
		}
		if err := h.field(b, start, end, limits.Fields); err != nil {
			return false, err
		}
	}
}

func (h *Head) field(b []byte, start, end int, limit int) error {
	line := b[start:end]
	n := span(line, tokenByte)
	if n == 0 || n == len(line) || line[n] != ':' {
		return fieldNameFault(line, n, start)
	}
	if len(h.Fields) >= limit {
		return fault(TooLarge, start, "too many field lines")
	}
	v0, v1 := trimSpace(b, start+n+1, end)
	if bad := ValueSpan(b[v0:v1]); bad < v1-v0 {
		return malformed(v0+bad, "control byte in field value")
	}
	return h.add(b, start, start+n, v0, v1)
}

// add adds a field with its name at b[start:colon] and its value at b[v0:v1], and records what it
// specifies about framing.
func (h *Head) add(b []byte, start, colon, v0, v1 int) error {
	f := Field{Name: SpanOf(start, colon), Value: SpanOf(v0, v1), Known: LookupName(b[start:colon])}
	isRestricted := f.Known.isRestricted()
	if isRestricted && h.section == inLenientTrailer {
		return nil
	}
	h.Fields = append(h.Fields, f)
	switch {
	case !isRestricted, h.section == ofCGI && f.Known != NameContentLength:
		return nil
	case h.section == inTrailer:
		return malformed(start, "field not allowed in a trailer section")
	}
	return h.record(f.Known, b[v0:v1], v0)
}

func fieldNameFault(line []byte, n, start int) error {
	switch {
	case line[0] == ' ' || line[0] == '\t':
		return malformed(start, "folded field line")
	case n == len(line):
		return malformed(start+n, "field line without a colon")
	case n == 0 && line[0] == ':':
		return malformed(start, "empty field name")
	case line[n] == ' ' || line[n] == '\t':
		return malformed(start+n, "space in field name or before its colon")
	}
	return malformed(start+n, "byte not allowed in field name")
}

// version parses "HTTP/1.x" and sets Minor.
func (h *Head) version(v []byte, offset int) error {
	if len(v) != 8 || string(v[:5]) != "HTTP/" || !isDigit(v[5]) || v[6] != '.' || !isDigit(v[7]) {
		return malformed(offset, "malformed protocol version")
	}
	if v[5] != '1' {
		return fault(BadVersion, offset, "protocol is not HTTP/1")
	}
	h.Minor = int(v[7] - '0')
	return nil
}

// Request is the head of a request. The zero value is ready for Parse.
type Request struct {
	Head
	Method, Target Span

	begun, skippedEmptyLine bool
}

// Reset prepares r for another request. It keeps the memory.
func (r *Request) Reset() {
	r.reset()
	r.Method, r.Target, r.begun, r.skippedEmptyLine = Span{}, Span{}, false, false
}

// Parse parses b, which contains everything received since the request began, and reports whether
// the head is complete. If it is not, call Parse again with more input; it does not parse bytes
// twice. After an error, call Reset first.
func (r *Request) Parse(b []byte, limits Limits) (complete bool, err error) {
	for !r.begun {
		if r.begun = r.plainRequestLine(b, limits); r.begun {
			break
		}
		r.ends = endInAny
		start, end, ok, err := r.nextLine(b, limits)
		if r.ends = endInCRLF; err != nil || !ok {
			return false, err
		}
		if start == end && !r.skippedEmptyLine {
			r.skippedEmptyLine = true // RFC 9112, 2.2
			continue
		}
		if b[end] == '\n' { // such as a request of net/rpc
			r.ends = endInLF
		}
		if err := r.requestLine(b, start, end); err != nil {
			return false, err
		}
		r.begun = true
	}
	if complete, err = r.parseFields(b, limits); !complete {
		return false, err
	}
	return true, r.finish(b)
}

// Begun reports whether the request line has arrived and is well-formed.
func (r *Request) Begun() bool { return r.begun }

// Line returns the request line without its line end, or the part that has arrived, well-formed or
// not. b is the input of Parse.
func (r *Request) Line(b []byte) []byte {
	if r.skippedEmptyLine {
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}

// requestLine parses "method SP target SP version" (RFC 9112, 3).
func (r *Request) requestLine(b []byte, start, end int) error {
	line := b[start:end]
	n := span(line, tokenByte)
	if n == 0 || n == len(line) || line[n] != ' ' {
		return malformed(start+n, "malformed method")
	}
	r.Method = SpanOf(start, start+n)
	t := n + 1
	n = t + span(line[t:], targetByte)
	if n == t || n == len(line) || line[n] != ' ' {
		return malformed(start+n, "malformed request target")
	}
	r.Target = SpanOf(start+t, start+n)
	return r.version(line[n+1:], start+n+1)
}

// Response is the head of a response. The zero value is ready for Parse.
type Response struct {
	Head
	Status int // 100 to 999
	Reason Span

	begun bool
}

// Reset prepares r for another response. It keeps the memory.
func (r *Response) Reset() {
	r.reset()
	r.Status, r.Reason, r.begun = 0, Span{}, false
}

// Parse is Request.Parse for a response.
func (r *Response) Parse(b []byte, limits Limits) (complete bool, err error) {
	if !r.begun {
		start, end, ok, err := r.nextLine(b, limits)
		if err != nil || !ok {
			return false, err
		}
		r.begun = true
		if err := r.statusLine(b, start, end); err != nil {
			return false, err
		}
	}
	if complete, err = r.parseFields(b, limits); !complete {
		return false, err
	}
	return true, r.checkCoding()
}

// statusLine parses "version SP code SP [reason]" (RFC 9112, 4). It accepts a line without the
// second space if there is no reason, because many servers send one.
func (r *Response) statusLine(b []byte, start, end int) error {
	line := b[start:end]
	if len(line) < len("HTTP/1.1 200") {
		return malformed(end, "status line too short")
	}
	if err := r.version(line[:8], start); err != nil {
		return err
	}
	if r.Status = ParseStatus(line[9:12]); line[8] != ' ' || r.Status == 0 {
		return malformed(start+8, "malformed status code")
	}
	if len(line) == 12 {
		return nil
	}
	if line[12] != ' ' {
		return malformed(start+12, "malformed status code")
	}
	reason := line[13:]
	if bad := ValueSpan(reason); bad < len(reason) {
		return malformed(start+13+bad, "control byte in reason phrase")
	}
	r.Reason = SpanOf(start+13, end)
	return nil
}

// ParseStatus parses a status code, 100 to 999. It returns 0 for anything else.
func ParseStatus(b []byte) int {
	if len(b) != 3 || b[0] == '0' || span(b, digitByte) != 3 {
		return 0
	}
	return int(b[0]-'0')*100 + int(b[1]-'0')*10 + int(b[2]-'0')
}
