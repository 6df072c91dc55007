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
	Set   func(value string) error // its effect; nil if it is unsupported
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

// Order is where flags may stand.
type Order uint8

const (
	Anywhere Order = iota // among other arguments
	First                 // before all other arguments
)

// Parse sets the flags of a command line, without the program's name, in their order, and returns
// the other arguments. "--" ends the flags. Errors name the flag.
func Parse(args []string, flags []Flag, order Order) (rest []string, err error) {
	for len(args) > 0 && err == nil {
		word := args[0]
		args = args[1:]
		switch {
		case word == "--":
			return append(rest, args...), nil
		case strings.HasPrefix(word, "--"):
			args, err = long(word, args, flags)
		case len(word) > 1 && word[0] == '-':
			args, err = short(word, args, flags)
		case order == First:
			return append([]string{word}, args...), nil
		default:
			rest = append(rest, word)
		}
	}
	return rest, err
}

// short sets a word of short flags. The value of the last one may be the next word.
func short(word string, args []string, flags []Flag) (left []string, err error) {
	for i := 1; i < len(word) && err == nil; i++ {
		spelling, value := "-"+word[i:i+1], word[i+1:]
		switch f, ok := byLetter(word[i], flags); {
		case !ok:
			return nil, &UnknownError{fmt.Sprintf("unknown flag %q", spelling)}
		case f.Arity == None:
			err = f.set(spelling, "")
		case f.Arity == Required && value == "":
			return f.setNext(spelling, args)
		default:
			return args, f.set(spelling, value)
		}
	}
	return args, err
}

func (f *Flag) set(spelling, value string) error {
	if f.Set == nil {
		return &UnknownError{"flag " + spelling + " is not supported"}
	}
	if err := f.Set(value); err != nil {
		return fmt.Errorf("flag %s: %w", spelling, err)
	}
	return nil
}

// setNext sets a flag to the next word.
func (f *Flag) setNext(spelling string, args []string) (left []string, err error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("flag %s: missing value", spelling)
	}
	return args[1:], f.set(spelling, args[0])
}

func byLetter(letter byte, flags []Flag) (Flag, bool) {
	for _, f := range flags {
		if f.Short == letter {
			return f, true
		}
	}
	return Flag{}, false
}

// long sets a word that is a long flag. Its value may be the next word.
func long(word string, args []string, flags []Flag) (left []string, err error) {
	name, value, has := strings.Cut(word[2:], "=")
	spelling := "--" + name
	f, err := byName(name, spelling, flags)
	switch {
	case err != nil:
		return nil, err
	case has && f.Arity == None:
		return nil, fmt.Errorf("flag %s allows no value, got %q", spelling, value)
	case !has && f.Arity == Required:
		return f.setNext(spelling, args)
	}
	return args, f.set(spelling, value)
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
		return found, &UnknownError{fmt.Sprintf("unknown flag %q", as)}
	case 1:
		return found, nil
	}
	return found, fmt.Errorf("flag %s is ambiguous: %s", as, strings.Join(candidates, ", "))
}

// UnknownError is the error of a flag that is unknown or unsupported.
type UnknownError struct{ text string }

func (e *UnknownError) Error() string { return e.text }
