package nginxconf

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/tarehq/tare/front/conf"
)

// sourceCharset translates source_charset; "" converts nothing. A map must exist if both charsets
// are known.
func (t *translator) sourceCharset(s *scope) conf.Text {
	d, to := s.one("source_charset"), s.word("charset")
	if d == nil || strings.EqualFold(d.args[0], "off") {
		return ""
	}
	from := d.args[0]
	isKnown := !hasVariable(from) && !hasVariable(to) && to != "" && !strings.EqualFold(to, "off")
	if isKnown && !strings.EqualFold(from, to) && !t.hasCharsetMap(from, to) {
		t.errorf(d, "no charset_map between %s and %s", shown(from), shown(to))
	}
	return t.text(d, from)
}

// hasCharsetMap reports whether there is a map between two charsets.
func (t *translator) hasCharsetMap(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return t.config.CharsetMaps[a][b] != nil || t.config.CharsetMaps[b][a] != nil
}

// charsetMap translates charset_map, whose lines are two hexadecimal codes.
func (t *translator) charsetMap(d *directive) {
	from, to := strings.ToLower(d.args[0]), strings.ToLower(d.args[1])
	switch {
	case from == to:
		t.errorf(d, "the charsets must differ")
	case from == "utf-8":
		t.errorf(d, "utf-8 must be the second charset")
	case t.hasCharsetMap(from, to):
		t.errorf(d, "duplicate map of these charsets")
	}
	rows := make(map[byte]string)
	for _, e := range t.entries(d) {
		code, err := hex.DecodeString(e.name)
		if err != nil || len(code) != 1 {
			t.errorf(e, "invalid code %s (must be two hexadecimal digits)", shown(e.name))
			continue
		}
		if len(e.args) != 1 {
			t.errorf(e, "%s in charset_map, but 1 required", plural(len(e.args), "code"))
			continue
		}
		text, err := hex.DecodeString(e.args[0])
		switch {
		case to == "utf-8" && (err != nil || utf8.RuneCount(text) != 1 || !utf8.Valid(text) || len(text) < 2 ||
			len(text) > 3): // ASCII is never converted
			t.errorf(e, "invalid code %s (must be the UTF-8 of one character from U+0080 to U+FFFF in hexadecimal digits)",
				shown(e.args[0]))
		case to != "utf-8" && (err != nil || len(text) != 1):
			t.errorf(e, "invalid code %s (must be two hexadecimal digits)", shown(e.args[0]))
		default:
			rows[code[0]] = string(text)
		}
	}
	if t.config.CharsetMaps == nil {
		t.config.CharsetMaps = make(map[string]map[string]map[byte]string)
	}
	if t.config.CharsetMaps[from] == nil {
		t.config.CharsetMaps[from] = make(map[string]map[byte]string)
	}
	t.config.CharsetMaps[from][to] = rows
}
