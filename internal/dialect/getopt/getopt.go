// Package getopt parses command lines as getopt_long(3) does, on which the emulated tools are
// built: -c10, -c 10, -kc10, --connections 10, --connections=10, --conn 10.
package getopt

import (
	"fmt"
	"strings"
)

// Arity is whether a flag has a value.
type Arity uint8

const (
	None     Arity = iota // no value
	Required              // the rest of the word, or the next word
	Optional              // the rest of the word, or what follows =
)

// Flag is a flag of a command line.
type Flag struct {
	Short byte   // 0 if there is none
	Long  string // empty if there is none; unambiguous prefixes are accepted
	Arity Arity
	Set   func(value string) error // its effect, which Parse leaves to the caller; nil if it is unsupported
}

// Value returns a flag with a value.
func Value(short byte, long string, set func(value string) error) Flag {
	return Flag{Short: short, Long: long, Arity: Required, Set: set}
}

// Text returns a flag whose value is stored as it is.
func Text(short byte, long string, to *string) Flag {
	return Value(short, long, func(value string) error { *to = value; return nil })
}

// Switch returns a flag without a value, which stands for to being v.
func Switch(short byte, long string, to *bool, v bool) Flag {
	return Flag{Short: short, Long: long, Set: func(string) error { *to = v; return nil }}
}

// Occurrence is a flag as it occurs on a command line.
type Occurrence struct {
	Flag
	Spelling string // as written, with its dashes
	Value    string // empty if there is none
}

// Order is where flags may stand.
type Order uint8

const (
	Anywhere Order = iota // among other arguments
	First                 // before all other arguments
)

// Parse splits a command line, without the program's name, into flags in their order and other
// arguments. "--" ends the flags. Errors name the flag.
func Parse(args []string, flags []Flag, order Order) (given []Occurrence, rest []string, err error) {
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		var more []Occurrence
		switch {
		case word == "--":
			return given, append(rest, args...), nil
		case strings.HasPrefix(word, "--"):
			more, args, err = long(word, args, flags)
		case len(word) > 1 && word[0] == '-':
			more, args, err = short(word, args, flags)
		case order == First:
			return given, append([]string{word}, args...), nil
		default:
			rest = append(rest, word)
		}
		given = append(given, more...)
		if err != nil {
			return given, rest, err
		}
	}
	return given, rest, nil
}

// short parses a word of short flags. The value of the last one may be the next word.
func short(word string, args []string, flags []Flag) (given []Occurrence, left []string, err error) {
	for i := 1; i < len(word); i++ {
		f, ok := byLetter(word[i], flags)
		g := Occurrence{Flag: f, Spelling: "-" + word[i:i+1]}
		if !ok {
			return given, args, &UnknownError{g.Spelling}
		}
		if f.Arity == None {
			given = append(given, g)
			continue
		}
		g.Value = word[i+1:]
		if g.Value == "" && f.Arity == Required {
			if len(args) == 0 {
				return given, args, fmt.Errorf("flag %s: missing value", g.Spelling)
			}
			g.Value, args = args[0], args[1:]
		}
		return append(given, g), args, nil
	}
	return given, args, nil
}

func byLetter(letter byte, flags []Flag) (Flag, bool) {
	for _, f := range flags {
		if f.Short == letter {
			return f, true
		}
	}
	return Flag{}, false
}

// long parses a word that is a long flag. Its value may be the next word.
func long(word string, args []string, flags []Flag) (given []Occurrence, left []string, err error) {
	name, value, has := strings.Cut(word[2:], "=")
	as := "--" + name
	f, err := byName(name, as, flags)
	if err != nil {
		return nil, args, err
	}
	switch {
	case has && f.Arity == None:
		return nil, args, fmt.Errorf("flag %s allows no value, got %q", as, value)
	case !has && f.Arity == Required:
		if len(args) == 0 {
			return nil, args, fmt.Errorf("flag %s: missing value", as)
		}
		value, args = args[0], args[1:]
	}
	return []Occurrence{{Flag: f, Spelling: as, Value: value}}, args, nil
}

// byName returns a flag by its name or an unambiguous prefix of it.
func byName(name, as string, flags []Flag) (found Flag, err error) {
	var candidates []string
	for _, f := range flags {
		if f.Long == name && name != "" {
			return f, nil
		}
		if f.Long != "" && strings.HasPrefix(f.Long, name) {
			found = f
			candidates = append(candidates, "--"+f.Long)
		}
	}
	switch len(candidates) {
	case 0:
		return found, &UnknownError{as}
	case 1:
		return found, nil
	}
	return found, fmt.Errorf("flag %s is ambiguous: %s", as, strings.Join(candidates, ", "))
}

// UnknownError is the error of an unknown flag.
type UnknownError struct{ Flag string }

func (e *UnknownError) Error() string { return fmt.Sprintf("unknown flag %q", e.Flag) }
