package nginxconf

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// lexer splits a file's text into statements: words up to ";" or "{", or a "}". The rules are those of nginx, which has no
// grammar but its reader:
//
//   - Spaces separate words. "#" begins a comment where a word could begin, and nowhere else.
//   - A word that begins with ' or " ends at the next one, behind which a space, ";", "{" or ")" must be. Quotes inside of
//     other words are themselves.
//   - A backslash has the next character not end a word. It stays, but for \" \' \\, and \t \r \n, which are what they are in C.
//   - "{" behind "$" is part of a word.
type lexer struct {
	file string
	text []byte
	at   int
	line int
	bol  int // where the line begins
}

// maxWord bounds a word as it is written: nginx reads files by so many bytes.
const maxWord = 4096

// position is where something is: lines and columns count from 1, columns in bytes.
type position struct {
	file         string
	line, column int
}

// statement is what is between two ends. Its end is ';', '{', '}', or 0 at the end of the file.
type statement struct {
	words []string
	pos   position // of its first word, or else of its end
	end   byte
}

func newLexer(file string, text []byte) *lexer { return &lexer{file: file, text: text, line: 1} }

// here is the position of the next character.
func (l *lexer) here() position { return position{l.file, l.line, l.at - l.bol + 1} }

// take returns the next character. There must be one.
func (l *lexer) take() byte {
	c := l.text[l.at]
	l.at++
	if c == '\n' {
		l.line++
		l.bol = l.at
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// next returns the next statement.
func (l *lexer) next() (statement, error) {
	var s statement
	for {
		l.skip()
		here := l.here()
		if len(s.words) == 0 {
			s.pos = here
		}
		if l.at == len(l.text) {
			if len(s.words) > 0 {
				return s, l.errorf(here, "the file ends inside of %s: is there a \";\" or \"}\" missing", shown(s.words[0]))
			}
			return s, nil
		}
		switch c := l.text[l.at]; c {
		case ';', '{':
			l.take()
			if len(s.words) == 0 {
				return s, l.errorf(here, "unexpected %q: a directive is missing in front of it", c)
			}
			s.end = c
			return s, nil
		case '}':
			l.take()
			if len(s.words) > 0 {
				return s, l.errorf(here, "unexpected \"}\": is there a \";\" missing behind %s", shown(s.words[0]))
			}
			s.end = c
			return s, nil
		}
		word, err := l.word()
		if err != nil {
			return s, err
		}
		s.words = append(s.words, word)
	}
}

// skip skips spaces and comments.
func (l *lexer) skip() {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case isSpace(c):
			l.take()
		case c == '#':
			if end := bytes.IndexByte(l.text[l.at:], '\n'); end >= 0 {
				l.at += end
			} else {
				l.at = len(l.text)
			}
		default:
			return
		}
	}
}

// word reads a word. There is at least one character of it.
func (l *lexer) word() (string, error) {
	start, quote := l.here(), byte(0)
	if c := l.text[l.at]; c == '"' || c == '\'' {
		quote = c
		l.take()
	}
	begin, variable := l.at, false
	for l.at < len(l.text) {
		if l.at-begin >= maxWord {
			return "", l.errorf(start, "a word of more than %d bytes: is a quote missing", maxWord)
		}
		c := l.text[l.at]
		switch {
		case c == '{' && variable:
			l.take()
			continue
		case c == '\\':
			variable = false
			l.take()
			if l.at < len(l.text) {
				l.take()
			}
			continue
		case quote != 0 && c == quote:
			word := unescape(l.text[begin:l.at])
			l.take()
			return word, l.behindQuote(quote)
		case quote == 0 && (isSpace(c) || c == ';' || c == '{'):
			return unescape(l.text[begin:l.at]), nil
		}
		variable = c == '$'
		l.take()
	}
	if quote != 0 {
		return "", l.errorf(start, "a quote is not closed")
	}
	return "", l.errorf(start, "the file ends inside of %s: is there a \";\" or \"}\" missing", shown(string(l.text[begin:])))
}

// behindQuote checks what is behind a closing quote.
func (l *lexer) behindQuote(quote byte) error {
	if l.at == len(l.text) {
		return l.errorf(l.here(), "the file ends behind a quote: is there a \";\" missing")
	}
	if c := l.text[l.at]; !isSpace(c) && c != ';' && c != '{' && c != ')' {
		r, _ := utf8.DecodeRune(l.text[l.at:])
		return l.errorf(l.here(), "unexpected %q behind a closing %c: quotes are around whole words only", r, quote)
	}
	return nil
}

// unescape resolves the backslashes that do not stay.
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) {
			switch c := b[i+1]; c {
			case '"', '\'', '\\':
				i++
			case 't', 'r', 'n':
				out = append(out, map[byte]byte{'t': '\t', 'r': '\r', 'n': '\n'}[c])
				i++
				continue
			}
		}
		out = append(out, b[i])
	}
	return string(out)
}

func (l *lexer) errorf(at position, format string, args ...any) error {
	return Message{File: at.file, Line: at.line, Column: at.column, Text: fmt.Sprintf(format, args...)}
}

// maxShown is how much of a word messages show.
const maxShown = 60

// shown is a word as messages have it.
func shown(word string) string {
	if len(word) > maxShown {
		return fmt.Sprintf("%q…", word[:maxShown])
	}
	return fmt.Sprintf("%q", word)
}
