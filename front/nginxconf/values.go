package nginxconf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// This file reads the values of directives in a scope. The checker has validated them.

func (s *scope) flag(name string, defaultValue bool) bool {
	if d := s.one(name); d != nil {
		on, _ := grammar.ParseFlag(d.Args[0])
		return on
	}
	return defaultValue
}

// number returns the value of a numeric directive, or 0 without the directive. In place of the
// value 0 it returns zero.
func (s *scope) number(name string, zero int) int {
	if d := s.one(name); d != nil {
		n, _ := grammar.ParseNumber(d.Args[0])
		return cmp.Or(int(n), zero)
	}
	return 0
}

// size is number for a number of bytes.
func (s *scope) size(name string, zero int64) int64 {
	if d := s.one(name); d != nil {
		n, _ := grammar.ParseOffset(d.Args[0])
		return cmp.Or(n, zero)
	}
	return 0
}

// buffers returns the total size of buffers in bytes, or 0.
func (s *scope) buffers(name string) int64 {
	if d := s.one(name); d != nil {
		n, _ := grammar.ParseNumber(d.Args[0])
		size, _ := grammar.ParseSize(d.Args[1])
		return n * size
	}
	return 0
}

// time returns a time, or 0 without the directive. A time of 0 becomes the minimum, because 0 means
// the default.
func (s *scope) time(name string) time.Duration {
	if d := s.one(name); d != nil {
		parse := grammar.ParseTime
		if d.Spec.Kind == "seconds" {
			parse = grammar.ParseSeconds
		}
		t, _ := parse(d.Args[0])
		return max(t, 1)
	}
	return 0
}

// word returns the first argument, or "".
func (s *scope) word(name string) string {
	if d := s.one(name); d != nil {
		return d.Args[0]
	}
	return ""
}

// setting is word in lower case, and "" for the default.
func (s *scope) setting(name, defaultWord string) string {
	if word := strings.ToLower(s.word(name)); word != defaultWord {
		return word
	}
	return ""
}

// is reports whether a directive's first argument is value.
func (s *scope) is(name, value string) bool { return strings.EqualFold(s.word(name), value) }

// words returns the arguments of all directives with the name.
func (s *scope) words(name string) []string {
	var words []string
	for _, d := range s.all(name) {
		words = append(words, d.Args...)
	}
	return words
}

// text returns an argument that may contain variables, and that may decide which clients get which
// response.
func (t *translator) text(d *syntax.Directive, arg string) conf.Text {
	for _, v := range t.unavailable(d, arg) {
		t.reject(d, "%s", v.why)
		t.config.Blank[v.name] = t.lenient
	}
	return conf.Text(arg)
}

// reportedText returns a text for logs, clients or upstreams. With Options.Lenient, unavailable
// variables in it are only empty: it decides nothing.
func (t *translator) reportedText(d *syntax.Directive, arg string) conf.Text {
	for _, v := range t.unavailable(d, arg) {
		t.omit(d, "%s", v.why)
		t.config.Blank[v.name] = t.lenient
	}
	return conf.Text(arg)
}

// upstreamText returns a text for an upstream, which may decide about access by it. As in
// reportedText, variables that are never available and only describe a connection or the time are
// empty. As in nginx a text in http is not checked unless a server inherits it.
func (t *translator) upstreamText(s *scope, d *syntax.Directive, arg string) conf.Text {
	if s.level == levelHTTP {
		return conf.Text(arg)
	}
	for _, v := range t.unavailable(d, arg) {
		if grammar.Unavailable(v.name) == "" || strings.HasPrefix(v.name, "proxy_protocol_") {
			t.reject(d, "%s", v.why)
		}
	}
	return t.reportedText(d, arg)
}

// field returns the value of a header field. It joins the lines of a value.
func (t *translator) field(d *syntax.Directive, arg string) string {
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

// unavailable is a variable that nginx has, or would have, and why it is not available.
type unavailable struct{ name, why string }

// unavailable returns the variables in a text that the front does not support, or that only a
// rejected directive defines. It also checks the syntax of variables.
func (t *translator) unavailable(d *syntax.Directive, text string) (all []unavailable) {
	if !hasVariable(text) || t.available[text] {
		return nil
	}
	pieces, err := grammar.Pieces(conf.Text(text))
	if err != nil {
		t.errorf(d, "%v", err)
	}
	for _, p := range pieces {
		if why := t.whyUnavailable(p.Variable); why != "" {
			all = append(all, unavailable{p.Variable,
				fmt.Sprintf("variable $%s is not available: %s", p.Variable, why)})
		}
	}
	if err == nil && all == nil {
		t.available[text] = true
		t.config.Texts = append(t.config.Texts,
			conf.PlacedText{Text: conf.Text(text), Directive: d.Name, Pos: d.Place()})
	}
	return all
}

// textOf returns the argument of a directive in the scope, or "".
func (t *translator) textOf(s *scope, name string) conf.Text {
	if d := s.one(name); d != nil {
		return t.text(d, d.Args[0])
	}
	return ""
}

func hasVariable(text string) bool { return grammar.HasVariables(conf.Text(text)) }

// variableName returns the name in an argument $name.
func (t *translator) variableName(d *syntax.Directive, arg string) string {
	name, ok := strings.CutPrefix(arg, "$")
	if !ok || name == "" {
		t.errorf(d, "invalid variable %s (must be $name)", grammar.Quote(arg))
		return "invalid"
	}
	return name
}

// path returns the path of a directive's file; a relative one is below the prefix.
func (t *translator) path(d *syntax.Directive, name string) string {
	path := below(t.prefix, name)
	t.checkPrefix(d, name, filepath.Dir(path))
	return path
}

// folderPath is path for a folder that must exist.
func (t *translator) folderPath(d *syntax.Directive, name string) string {
	path := below(t.prefix, name)
	t.checkPrefix(d, name, path)
	return path
}

// checkPrefix warns if a relative path leads to a folder that does not exist, and may do so because
// no prefix is set: nginx then has one of its own.
func (t *translator) checkPrefix(d *syntax.Directive, name, folder string) {
	if t.options.Prefix != "" || t.options.FS != nil || syntax.IsAbs(name) || hasVariable(name) || t.missing[folder] {
		return
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		t.missing[folder] = true
		t.warn(d, "%s does not exist: without a prefix (nginx's -p) relative paths start at the folder of the configuration, and in nginx at the prefix that it was built with",
			folder)
	}
}

// confPath returns a path; a relative one is below the configuration's folder.
func (t *translator) confPath(name string) string { return below(t.confDir, name) }

func below(dir, name string) string {
	if syntax.IsAbs(name) || strings.HasPrefix(name, "$") {
		return name
	}
	return filepath.Join(dir, name)
}
