package cache

import (
	"encoding/base64"
	"strings"
)

// targetedField is Cache-Control for caches in front of an origin only: RFC 9213.
const targetedField = "Cdn-Cache-Control"

// parseTargeted reads the lines of a targeted field, a Dictionary of structured fields (RFC 8941,
// 3.2). If the field is empty or malformed it returns false, and Cache-Control counts. A directive
// whose value has the wrong type is ignored, unless it prevents storing.
func parseTargeted(lines []string) (d directives, ok bool) {
	p := &fieldParser{rest: trim(strings.Join(lines, ","))}
	members := make(map[string]string)
	for p.rest != "" {
		name := p.key()
		value := "?1"
		if p.eat('=') {
			value = p.member()
		}
		p.parameters()
		members[name] = value // the last one counts
		p.rest = strings.TrimLeft(p.rest, " \t")
		if p.bad || p.rest != "" && !p.eat(',') {
			return d, false
		}
		if before := p.rest; before != "" {
			p.rest = strings.TrimLeft(before, " \t")
		}
	}
	if p.bad || len(members) == 0 || strings.HasSuffix(trim(strings.Join(lines, ",")), ",") {
		return d, false
	}
	for name, value := range members {
		if value == "?0" {
			continue
		}
		d.addRestriction(name) // with a value of any type: the origin wants to prevent storing
		switch _, isNumber := parseSeconds(value); {
		case isNumber:
			d.addSeconds(name, value)
		case !strings.HasPrefix(value, "-"):
			d.addFlag(name)
		}
	}
	return d, true
}

// fieldParser reads a structured field. After an error it reads nothing more.
type fieldParser struct {
	rest string
	bad  bool
}

func (p *fieldParser) fail() string {
	p.bad, p.rest = true, ""
	return ""
}

func (p *fieldParser) eat(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// cut removes and returns the first n bytes; n must be at least 1.
func (p *fieldParser) cut(n int) string {
	if n <= 0 {
		return p.fail()
	}
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

// span returns the length of the prefix of letters, digits and other bytes.
func (p *fieldParser) span(upper bool, others string) int {
	for i, c := range []byte(p.rest) {
		letter := 'a' <= c && c <= 'z' || upper && 'A' <= c && c <= 'Z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte(others, c) < 0 {
			return i
		}
	}
	return len(p.rest)
}

func (p *fieldParser) key() string {
	if p.rest == "" || p.rest[0] != '*' && (p.rest[0] < 'a' || p.rest[0] > 'z') {
		return p.fail()
	}
	return p.cut(p.span(false, "_-.*"))
}

// member reads an item or an inner list; no directive has a list.
func (p *fieldParser) member() string {
	if !p.eat('(') {
		return p.item()
	}
	for !p.bad {
		p.rest = strings.TrimLeft(p.rest, " ")
		if p.eat(')') {
			return "()"
		}
		p.item()
		p.parameters()
		if p.rest == "" || p.rest[0] != ' ' && p.rest[0] != ')' {
			return p.fail()
		}
	}
	return ""
}

func (p *fieldParser) parameters() {
	for p.eat(';') {
		p.rest = strings.TrimLeft(p.rest, " ")
		p.key()
		if p.eat('=') {
			p.item()
		}
	}
}

// item reads a bare item, and returns its text.
func (p *fieldParser) item() string {
	if p.rest == "" {
		return p.fail()
	}
	switch c := p.rest[0]; {
	case c == '"':
		return p.quoted()
	case c == '?':
		if len(p.rest) < 2 || p.rest[1] != '0' && p.rest[1] != '1' {
			return p.fail()
		}
		return p.cut(2)
	case c == ':':
		end := strings.IndexByte(p.rest[1:], ':')
		if end < 0 {
			return p.fail()
		}
		if _, err := base64.StdEncoding.DecodeString(p.rest[1 : 1+end]); err != nil {
			return p.fail()
		}
		return p.cut(end + 2)
	case c == '-', '0' <= c && c <= '9':
		return p.number()
	case c == '*', 'a' <= c|0x20 && c|0x20 <= 'z':
		return p.cut(p.span(true, "!#$%&'*+-.^_`|~:/"))
	}
	return p.fail()
}

// number reads an Integer or a Decimal.
func (p *fieldParser) number() string {
	n := 0
	if p.rest[0] == '-' {
		n = 1
	}
	end := n
	for end < len(p.rest) && (p.rest[end] >= '0' && p.rest[end] <= '9' || p.rest[end] == '.') {
		end++
	}
	whole, part, decimal := strings.Cut(p.rest[n:end], ".")
	if whole == "" || len(whole) > 15 || decimal &&
		(len(whole) > 12 || part == "" || len(part) > 3 || strings.Contains(part, ".")) {
		return p.fail()
	}
	return p.cut(end)
}

func (p *fieldParser) quoted() string {
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			return p.cut(i + 1)
		case c == '\\':
			if i++; i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return p.fail()
			}
		case c < ' ' || c > '~':
			return p.fail()
		}
	}
	return p.fail()
}
