package nginxconf

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/tarehq/tare/front"
)

// These are values of directives that hold at a scope. The checker has seen to it that they can be read.

// flag is that of an on or off.
func (s *scope) flag(name string, otherwise bool) bool {
	if d := s.one(name); d != nil {
		on, _ := parseFlag(d.args[0])
		return on
	}
	return otherwise
}

// number is one, or 0.
func (s *scope) number(name string) int {
	if d := s.one(name); d != nil {
		n, _ := parseNumber(d.args[0])
		return int(n)
	}
	return 0
}

// size is a number of bytes, and whether there is one.
func (s *scope) size(name string) (int64, bool) {
	if d := s.one(name); d != nil {
		n, _ := parseSize(d.args[0], true)
		return n, true
	}
	return 0, false
}

// buffers is how many bytes buffers have together, or 0.
func (s *scope) buffers(name string) int64 {
	if d := s.one(name); d != nil {
		n, _ := parseNumber(d.args[0])
		size, _ := parseSize(d.args[1], false)
		return n * size
	}
	return 0
}

// time is a time, or 0 if there is none. One that is 0 itself is as short as can be, because 0 is a default.
func (s *scope) time(name string) time.Duration {
	if d := s.one(name); d != nil {
		t, _ := parseTime(d.args[0], d.spec.kind == "seconds")
		return max(t, 1)
	}
	return 0
}

// word is the argument, or "".
func (s *scope) word(name string) string {
	if d := s.one(name); d != nil {
		return d.args[0]
	}
	return ""
}

// is reports whether a directive holds whose argument is that.
func (s *scope) is(name, value string) bool { return strings.EqualFold(s.word(name), value) }

// words are the arguments of all directives of the name.
func (s *scope) words(name string) []string {
	var words []string
	for _, d := range s.all(name) {
		words = append(words, d.args...)
	}
	return words
}

// text is an argument with variables.
func (t *translator) text(d *directive, arg string) front.Text {
	for _, why := range t.unavailable(d, arg) {
		t.errorf(d, "%s", why)
	}
	return front.Text(arg)
}

// told is the text of what is only told, to logs, clients and upstreams: who is lenient has it with variables that are empty because they
// are not to be had. Elsewhere they may decide who gets in.
func (t *translator) told(d *directive, arg string) front.Text {
	for _, why := range t.unavailable(d, arg) {
		t.omit(d, "%s", why)
		t.config.BlankUnavailable = t.lenient
	}
	return front.Text(arg)
}

// sent is the text of what an upstream is sent, which may decide by it. What only describes a connection is empty there, as in told.
func (t *translator) sent(d *directive, arg string) front.Text {
	for _, why := range t.unavailable(d, arg) {
		if name, _, _ := strings.Cut(why, " is "); strings.Contains(name, "$proxy_protocol_") || strings.Contains(name, "$uid_") {
			t.refuse(d, "%s", why)
		}
	}
	return t.told(d, arg)
}

// field is an argument that is sent as a field. One that goes over several lines in the configuration is sent in one.
func (t *translator) field(d *directive, arg string) string {
	if !strings.ContainsAny(arg, "\r\n") {
		return arg
	}
	lines := strings.FieldsFunc(arg, func(r rune) bool { return r == '\r' || r == '\n' })
	for i, line := range lines {
		lines[i] = strings.Trim(line, " \t")
	}
	t.note(d, "a field is one line: a space is sent for each line end")
	return strings.Trim(strings.Join(lines, " "), " ")
}

// unavailable says which of nginx's variables in a text are not to be had, and why. It checks that they are written as such.
func (t *translator) unavailable(d *directive, text string) (all []string) {
	if err := checkText(text); err != nil {
		t.errorf(d, "%v", err)
		return nil
	}
	for hasVariable(text) {
		_, text, _ = strings.Cut(text, "$")
		text = strings.TrimPrefix(text, "{")
		name := strings.ToLower(text[:nameLength(text)])
		if why := front.Unavailable(name); why != "" {
			all = append(all, fmt.Sprintf("the variable $%s is not available: %s", name, why))
		}
	}
	return all
}

// textOf is the argument of a directive that holds, or "".
func (t *translator) textOf(s *scope, name string) front.Text {
	if d := s.one(name); d != nil {
		return t.text(d, d.args[0])
	}
	return ""
}

func hasVariable(text string) bool { return strings.Contains(text, "$") }

// checkText checks that variables are written as such.
func checkText(text string) error {
	for rest := text; ; {
		at := strings.IndexByte(rest, '$')
		if at < 0 {
			return nil
		}
		var name string
		if rest = rest[at+1:]; strings.HasPrefix(rest, "{") {
			end := strings.IndexByte(rest, '}')
			if end < 0 {
				return fmt.Errorf("%s: a \"}\" is missing behind ${", shown(text))
			}
			name, rest = rest[1:end], rest[end+1:]
			if n := nameLength(name); n != len(name) {
				name = ""
			}
		} else {
			n := nameLength(rest)
			name, rest = rest[:n], rest[n:]
		}
		if name == "" {
			return fmt.Errorf("%s: a variable's name is missing behind $, which cannot stand for itself", shown(text))
		}
	}
}

// nameLength is how many bytes of a text are a variable's name.
func nameLength(text string) int {
	if text != "" && text[0] >= '1' && text[0] <= '9' {
		return 1 // a group
	}
	for i, c := range []byte(text) {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return i
		}
	}
	return len(text)
}

// variableName is the name in an argument that names a variable: $name.
func (t *translator) variableName(d *directive, arg string) string {
	name, ok := strings.CutPrefix(arg, "$")
	if !ok || name == "" {
		t.errorf(d, "%s is no variable: want $name", shown(arg))
		return "invalid"
	}
	return name
}

// path is a path, which is below the prefix if it is relative.
func (t *translator) path(name string) string { return below(t.prefix, name) }

// confPath is a path, which is below the configuration's folder if it is relative.
func (t *translator) confPath(name string) string { return below(t.confDir, name) }

func below(dir, name string) string {
	if isAbs(name) || strings.HasPrefix(name, "$") {
		return name
	}
	return filepath.Join(dir, name)
}

// parameter splits name=value.
func parameter(arg string) (name, value string, has bool) { return strings.Cut(arg, "=") }
