//go:build linux

package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// splitWords splits a command line into words as a shell does: by spaces, with 'quotes', "quotes"
// and backslashes. A real shell would be one more process to measure and to stop. Unquoted
// characters with a meaning in a shell are an error.
func splitWords(line string) (words []string, err error) {
	const special = "|&;<>()$`*?[~#\n"
	var word strings.Builder
	begun := false // true also after empty quotes
	for rest := line; rest != ""; {
		c := rest[0]
		rest = rest[1:]
		switch {
		case c == ' ' || c == '\t':
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
			continue
		case c == '\'' || c == '"':
			if rest, err = readQuoted(&word, rest, c); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
		case c == '\\':
			if rest == "" {
				return nil, fmt.Errorf("%q: no character after the backslash", line)
			}
			word.WriteByte(rest[0])
			rest = rest[1:]
		case strings.IndexByte(special, c) >= 0:
			return nil, fmt.Errorf("%q: %q needs a shell, but none is used: quote it, or write sh -c '...'", line, c)
		default:
			word.WriteByte(c)
		}
		begun = true
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// readQuoted appends quoted text to word, up to the closing quote, and returns the rest. The
// opening quote has been consumed.
func readQuoted(word *strings.Builder, rest string, quote byte) (after string, err error) {
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == quote:
			return rest[i+1:], nil
		case quote == '"' && c == '\\' && i+1 < len(rest) && strings.IndexByte("\"\\$`", rest[i+1]) >= 0:
			i++
			word.WriteByte(rest[i])
		case quote == '"' && (c == '$' || c == '`'):
			return "", fmt.Errorf("%q in double quotes needs a shell, but none is used: use single quotes, or write sh -c '...'", c)
		default:
			word.WriteByte(c)
		}
	}
	return "", errors.New("unclosed quote")
}

// variables splits leading words of the form NAME=value, which set environment variables, from a
// command.
func variables(words []string) (env, command []string) {
	for i, word := range words {
		name, _, ok := strings.Cut(word, "=")
		if !ok || !isVariable(name) {
			return words[:i], words[i:]
		}
	}
	return words, nil
}

func isVariable(name string) bool {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name)
}
