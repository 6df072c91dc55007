package nginxconf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
		t.reject(d, "%s", v.Why)
		t.config.Blank[v.Name] = t.lenient
	}
	return conf.Text(arg)
}

// reportedText returns a text for logs, clients or upstreams. With Options.Lenient, unavailable
// variables in it are only empty: it decides nothing.
func (t *translator) reportedText(d *syntax.Directive, arg string) conf.Text {
	for _, v := range t.unavailable(d, arg) {
		t.omit(d, "%s", v.Why)
		t.config.Blank[v.Name] = t.lenient
	}
	return conf.Text(arg)
}

// upstreamText returns a text that is sent to an upstream. The upstream may grant access because of
// it, so variables that are not available are rejected, except for those that only describe a
// connection or the time: they are empty. As in nginx a text in http is not checked unless a server
// inherits it.
func (t *translator) upstreamText(s *scope, d *syntax.Directive, arg string) conf.Text {
	if s.level == levelHTTP {
		return conf.Text(arg)
	}
	for _, v := range t.unavailable(d, arg) {
		if grammar.Unavailable(v.Name) == "" || strings.HasPrefix(v.Name, "proxy_protocol_") {
			t.reject(d, "%s", v.Why)
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

// unavailable returns the variables in a text that the front does not support, or that only a
// rejected directive defines. It also checks the syntax of variables.
func (t *translator) unavailable(d *syntax.Directive, text string) (all []grammar.Missing) {
	if !hasVariable(text) || t.available[text] {
		return nil
	}
	pieces, err := grammar.Pieces(conf.Text(text))
	t.check(d, err)
	for _, p := range pieces {
		if why := t.whyUnavailable(p.Variable); why != "" {
			all = append(all, grammar.Missing{Name: p.Variable,
				Why: fmt.Sprintf("variable $%s is not available: %s", p.Variable, why)})
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

// variable returns an argument that must be a single variable, in which $1 is not a group. As in
// nginx the whole argument is the name, such as $cookie_a-b.
func (t *translator) variable(d *syntax.Directive, arg string) conf.Text {
	name := t.variableName(d, arg)
	switch {
	case grammar.IsOfClient(name):
		arg = "${" + name + "}"
	case !grammar.IsVariableName(name) || '1' <= name[0] && name[0] <= '9':
		t.errorf(d, "unknown variable %s (must be $name)", grammar.Quote(arg))
	}
	return t.text(d, arg)
}

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

// param is a parameter of a directive. Its name ends in "=" if it has a value.
type param struct {
	name string
	set  func(value string) error
}

// params sets parameters of a directive. It reports those that are unknown or invalid.
func (t *translator) params(d *syntax.Directive, args []string, known ...param) {
	for _, arg := range args {
		name, value, has := strings.Cut(arg, "=")
		if has {
			name += "="
		}
		at := slices.IndexFunc(known, func(p param) bool { return p.name == name })
		if at < 0 {
			var names []string
			for _, p := range known {
				names = append(names, p.name)
			}
			t.errorf(d, "unknown parameter %s (must be one of %s)", grammar.Quote(arg), strings.Join(names, ", "))
		} else if err := known[at].set(value); err != nil {
			t.errorf(d, "invalid parameter %s: %v", grammar.Quote(arg), err)
		}
	}
}

func word(name string, is *bool) param {
	return param{name, func(string) error {
		*is = true
		return nil
	}}
}

// value is a parameter whose value is parsed.
func value[T any](name string, to *T, parse func(text string) (T, error)) param {
	return param{name, func(text string) (err error) {
		*to, err = parse(text)
		return err
	}}
}

// onOff parses on or off. Parameters, unlike arguments, have them in lower case only, as in nginx.
func onOff(text string) (bool, error) {
	if text != "on" && text != "off" {
		return false, errors.New("must be on or off")
	}
	return text == "on", nil
}

// nonEmpty returns a text that must not be empty.
func nonEmpty(text string) (string, error) {
	if text == "" {
		return "", errors.New("missing value")
	}
	return text, nil
}

// aboveZero returns an error unless a number was parsed and is above 0.
func aboveZero[T int64 | time.Duration](n T, err error) error {
	if err == nil && n == 0 {
		err = errors.New("must be greater than 0")
	}
	return err
}

// number is a parameter with a number of at least least.
func number(name string, to *int, least int64) param {
	return value(name, to, func(text string) (int, error) {
		n, err := grammar.ParseNumber(text)
		if err == nil && n < least {
			err = fmt.Errorf("must be at least %d", least)
		}
		return int(n), err
	})
}

// textParam is a parameter with a text.
func (t *translator) textParam(d *syntax.Directive, name string, to *conf.Text) param {
	return value(name, to, func(text string) (conf.Text, error) { return t.text(d, text), nil })
}

// ignoredParam is a parameter without effect. check may reject its value.
func (t *translator) ignoredParam(d *syntax.Directive, name, why string, check func(text string) error) param {
	return param{name, func(text string) error {
		if check != nil {
			if err := check(text); err != nil {
				return err
			}
		}
		t.remark(d, "%s is ignored: %s", name+text, why)
		return nil
	}}
}

// parses returns a check that a value can be parsed.
func parses[T any](parse func(text string) (T, error)) func(text string) error {
	return func(text string) error {
		_, err := parse(text)
		return err
	}
}

// unsupportedParam is a parameter that is left out.
func (t *translator) unsupportedParam(d *syntax.Directive, name, remedy string) param {
	return param{name, func(text string) error {
		t.omit(d, "parameter %s is not supported (%s)", grammar.Quote(name+text), remedy)
		return nil
	}}
}
