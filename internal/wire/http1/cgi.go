package http1

// CGI is the head of a CGI program's response (RFC 3875, 6.2 and 6.3): field lines, of which Status
// stands for the status line. Lines may end in a bare LF, as those of most programs do. Fields
// about the connection have no meaning in it. The zero value is ready for Parse.
type CGI struct {
	Head
	Status int // 100 to 999; 200 or 302 if the program omits it
	Reason Span
}

// Reset prepares r for another response. It keeps the memory.
func (r *CGI) Reset() {
	r.reset()
	r.Status, r.Reason = 0, Span{}
}

// Parse is Request.Parse for a CGI response.
func (r *CGI) Parse(b []byte, limits Limits) (complete bool, err error) {
	r.ends, r.section = endInAny, ofCGI
	if complete, err = r.parseFields(b, limits); !complete {
		return false, err
	}
	return true, r.findStatus(b)
}

func (r *CGI) findStatus(b []byte) error {
	moved := false
	for _, f := range r.Fields {
		switch name := f.Name.In(b); {
		case EqualFold(name, "location"):
			moved = true
		case !EqualFold(name, "status"):
		case r.Status != 0:
			return malformed(int(f.Name.Start), "second Status")
		default:
			if err := r.status(f.Value, b); err != nil {
				return err
			}
		}
	}
	switch {
	case r.Status != 0:
	case moved:
		r.Status = 302
	default:
		r.Status = 200
	}
	return nil
}

// status parses "code [SP reason]".
func (r *CGI) status(at Span, b []byte) error {
	value := at.In(b)
	code := value[:min(len(value), 3)]
	if r.Status = ParseStatus(code); r.Status == 0 || len(value) > 3 && value[3] != ' ' {
		return malformed(int(at.Start), "malformed Status")
	}
	r.Reason = Span{at.Start + uint32(min(4, len(value))), at.End}
	return nil
}
