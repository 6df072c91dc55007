package nginxconf

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// This file reads the values of directives in a scope. The checker has validated them.

// flag returns the value of an on/off directive.
func (s *scope) flag(name string, defaultValue bool) bool {
	if d := s.one(name); d != nil {
		on, _ := parseFlag(d.args[0])
		return on
	}
	return defaultValue
}

// number returns the value of a numeric directive, or 0.
func (s *scope) number(name string) int {
	if d := s.one(name); d != nil {
		n, _ := parseNumber(d.args[0])
		return int(n)
	}
	return 0
}

// size returns a number of bytes, and whether the directive exists.
func (s *scope) size(name string) (int64, bool) {
	if d := s.one(name); d != nil {
		n, _ := parseSize(d.args[0], true)
		return n, true
	}
	return 0, false
}

// buffers returns the total size of buffers in bytes, or 0.
func (s *scope) buffers(name string) int64 {
	if d := s.one(name); d != nil {
		n, _ := parseNumber(d.args[0])
		size, _ := parseSize(d.args[1], false)
		return n * size
	}
	return 0
}

// time returns a time, or 0 without the directive. A time of 0 becomes the minimum, because 0 means
// the default.
func (s *scope) time(name string) time.Duration {
	if d := s.one(name); d != nil {
		t, _ := parseTime(d.args[0], d.spec.kind == "seconds")
		return max(t, 1)
	}
	return 0
}

// word returns the first argument, or "".
func (s *scope) word(name string) string {
	if d := s.one(name); d != nil {
		return d.args[0]
	}
	return ""
}

// is reports whether a directive's first argument is value.
func (s *scope) is(name, value string) bool { return strings.EqualFold(s.word(name), value) }

// words returns the arguments of all directives with the name.
func (s *scope) words(name string) []string {
	var words []string
	for _, d := range s.all(name) {
		words = append(words, d.args...)
	}
	return words
}

// text returns an argument that may contain variables.
func (t *translator) text(d *directive, arg string) conf.Text {
	for _, why := range t.unavailable(d, arg) {
		t.errorf(d, "%s", why)
	}
	return conf.Text(arg)
}

// reported returns a text for logs, clients or upstreams. With Options.Lenient, unavailable
// variables in it are empty. Elsewhere they are errors, because they may decide about access.
func (t *translator) reported(d *directive, arg string) conf.Text {
	for _, why := range t.unavailable(d, arg) {
		t.omit(d, "%s", why)
		t.config.BlankUnavailable = t.lenient
	}
	return conf.Text(arg)
}

// sent returns a text for an upstream, which may decide about access by it. Unavailable variables
// that only describe a connection are empty, as in reported.
func (t *translator) sent(d *directive, arg string) conf.Text {
	for _, why := range t.unavailable(d, arg) {
		if name, _, _ := strings.Cut(why, " is "); strings.Contains(name, "$proxy_protocol_") ||
			strings.Contains(name, "$uid_") {
			t.reject(d, "%s", why)
		}
	}
	return t.reported(d, arg)
}

// field returns the value of a header field. It joins the lines of a value.
func (t *translator) field(d *directive, arg string) string {
	if !strings.ContainsAny(arg, "\r\n") {
		return arg
	}
	lines := strings.FieldsFunc(arg, func(r rune) bool { return r == '\r' || r == '\n' })
	for i, line := range lines {
		lines[i] = strings.Trim(line, " \t")
	}
	t.remark(d, "line breaks in a field value are replaced by spaces")
	return strings.Trim(strings.Join(lines, " "), " ")
}

// unavailable returns an error for each of nginx's variables in a text that front does not support.
// It also checks the syntax of variables.
func (t *translator) unavailable(d *directive, text string) (all []string) {
	if err := checkText(text); err != nil {
		t.errorf(d, "%v", err)
		return nil
	}
	for hasVariable(text) {
		_, text, _ = strings.Cut(text, "$")
		text = strings.TrimPrefix(text, "{")
		name := strings.ToLower(text[:nameLength(text)])
		if why := conf.Unavailable(name); why != "" {
			all = append(all, fmt.Sprintf("variable $%s is not available: %s", name, why))
		}
	}
	return all
}

// textOf returns the argument of a directive in the scope, or "".
func (t *translator) textOf(s *scope, name string) conf.Text {
	if d := s.one(name); d != nil {
		return t.text(d, d.args[0])
	}
	return ""
}

func hasVariable(text string) bool { return strings.Contains(text, "$") }

// checkText checks the syntax of variables.
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
				return fmt.Errorf("missing \"}\" after ${ in %s", shown(text))
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
			return fmt.Errorf("missing variable name after $ in %s", shown(text))
		}
	}
}

// nameLength returns the length of the variable's name at the beginning of a text.
func nameLength(text string) int {
	if text != "" && text[0] >= '1' && text[0] <= '9' {
		return 1 // a capture group
	}
	for i, c := range []byte(text) {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return i
		}
	}
	return len(text)
}

// variableName returns the name in an argument $name.
func (t *translator) variableName(d *directive, arg string) string {
	name, ok := strings.CutPrefix(arg, "$")
	if !ok || name == "" {
		t.errorf(d, "invalid variable %s (must be $name)", shown(arg))
		return "invalid"
	}
	return name
}

// path returns a path; a relative one is below the prefix.
func (t *translator) path(name string) string { return below(t.prefix, name) }

// confPath returns a path; a relative one is below the configuration's folder.
func (t *translator) confPath(name string) string { return below(t.confDir, name) }

func below(dir, name string) string {
	if isAbs(name) || strings.HasPrefix(name, "$") {
		return name
	}
	return filepath.Join(dir, name)
}

// parameter splits name=value.
func parameter(arg string) (name, value string, has bool) { return strings.Cut(arg, "=") }
