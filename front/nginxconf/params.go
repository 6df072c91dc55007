package nginxconf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

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
