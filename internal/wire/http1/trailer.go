package http1

// Trailer is the trailer section after a chunked body. The zero value is ready for Parse.
type Trailer struct {
	Head
	IsLenient bool // Parse drops fields instead of rejecting them
}

// Parse is Request.Parse for a trailer section; b starts after the last chunk's line. It rejects
// fields that would change the framing or the routing of the message (RFC 9110, 6.5.1).
func (t *Trailer) Parse(b []byte, limits Limits) (complete bool, err error) {
	if t.section = inTrailer; t.IsLenient {
		t.section = inLenientTrailer
	}
	return t.parseFields(b, limits)
}

// AddTo adds the fields of a complete section to net/http's Trailer, and returns that. It makes one
// if header is nil and there are fields. b is the input of Parse, canonical as in AddFields.
func (t *Trailer) AddTo(header map[string][]string, b []byte, canonical func(string) string) map[string][]string {
	if len(t.Fields) == 0 {
		return header
	}
	section, c := TextOf(b[:t.Size]), Collect(header, len(t.Fields), nil)
	c.AddFields(t.Fields, &section, canonical)
	return c.Fields
}

// TrailerAllowed reports whether name is a field name that may appear in a trailer section, as far
// as framing, routing and the connection are concerned.
func TrailerAllowed(name string) bool {
	return ValidToken(name) && !LookupName([]byte(name)).isRestricted()
}

// TakeTrailer removes the Trailer field from a header. It returns the names in it, in the form of
// net/http's Trailer before the section arrives: canonical and without values, nil if there are
// none. More than limit names are an error, and so are names that a section must not contain. If
// isLenient is set, the latter are omitted instead.
func TakeTrailer(header map[string][]string, limit int, isLenient bool, canonical func(string) string) (
	trailer map[string][]string, err error) {
	lists, ok := header["Trailer"]
	if !ok {
		return nil, nil
	}
	delete(header, "Trailer")
	for _, list := range lists {
		for name := range Elements(list) {
			name = canonical(name)
			switch restricted := LookupName([]byte(name)).isRestricted(); {
			case restricted && isLenient:
				continue
			case restricted:
				return nil, malformed(0, "trailer field not allowed")
			case len(trailer) == limit:
				return trailer, fault(TooLarge, 0, "too many names in the Trailer field")
			case trailer == nil:
				trailer = make(map[string][]string)
			}
			trailer[name] = nil
		}
	}
	return trailer, nil
}
