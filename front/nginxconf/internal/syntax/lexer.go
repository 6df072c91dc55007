package syntax

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tarehq/tare/front/internal/grammar"
)

// lexer splits a file's text into statements: words up to ";" or "{", or a "}". The rules are those
// of nginx's reader:
//
//   - White space separates words. "#" begins a comment only where a word could begin.
//   - A word that begins with ' or " ends at the next one, which a space, ";", "{" or ")" must
//     follow. Quotes inside other words are literal.
//   - The character after a backslash does not end a word. The backslash is kept, except in \" \'
//     and \\, and in \t \r \n, which mean the same as in C.
//   - "{" after "$" is part of a word.
type lexer struct {
	file      string
	text      string
	at        int
	line      int
	lineStart int      // offset of the line's first byte
	words     []string // of the statement that is being read; parts of the text
}

// maxWord is the maximum length of a word: nginx's buffer for reading.
const maxWord = 4096

// statement is a list of words with its end: ';', '{', '}', or 0 at the end of the file.
type statement struct {
	words []string
	pos   Position // of its first word, or of its end without words
	end   byte
}

// here returns the position of the next character.
func (l *lexer) here() Position { return Position{l.file, l.line, l.at - l.lineStart + 1} }

// advance returns the next character, which must exist.
func (l *lexer) advance() byte {
	c := l.text[l.at]
	l.at++
	if c == '\n' {
		l.line++
		l.lineStart = l.at
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func (l *lexer) next() (statement, *Error) {
	var s statement
	l.words = l.words[:0]
	for {
		l.skip()
		here := l.here()
		if len(l.words) == 0 {
			s.pos = here
		}
		if l.at == len(l.text) {
			if len(l.words) > 0 {
				return s, l.errorf(here, "unexpected end of file in %s (missing \";\" or \"}\"?)", grammar.Quote(l.words[0]))
			}
			return s, nil
		}
		switch c := l.text[l.at]; c {
		case ';', '{':
			l.advance()
			if len(l.words) == 0 {
				return s, l.errorf(here, "unexpected %q: missing directive", c)
			}
			s.words, s.end = slices.Clone(l.words), c
			return s, nil
		case '}':
			l.advance()
			if len(l.words) > 0 {
				return s, l.errorf(here, "unexpected \"}\" (missing \";\" after %s?)", grammar.Quote(l.words[0]))
			}
			s.end = c
			return s, nil
		}
		word, err := l.word()
		if err != nil {
			return s, err
		}
		l.words = append(l.words, word)
	}
}

// skip skips spaces and comments.
func (l *lexer) skip() {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case isSpace(c):
			l.advance()
		case c == '#':
			if end := strings.IndexByte(l.text[l.at:], '\n'); end >= 0 {
				l.at += end
			} else {
				l.at = len(l.text)
			}
		default:
			return
		}
	}
}

// word reads a word. At least one of its characters exists.
func (l *lexer) word() (string, *Error) {
	start, quote := l.here(), byte(0)
	if c := l.text[l.at]; c == '"' || c == '\'' {
		quote = c
		l.advance()
	}
	begin, variable := l.at, false
	for l.at < len(l.text) {
		if l.at-begin >= maxWord {
			return "", l.errorf(start, "word longer than %d bytes (missing quote?)", maxWord)
		}
		c := l.text[l.at]
		switch {
		case c == '{' && variable:
			l.advance()
			continue
		case c == '\\':
			variable = false
			l.advance()
			if l.at < len(l.text) {
				l.advance()
			}
			continue
		case quote != 0 && c == quote:
			word := unescape(l.text[begin:l.at])
			l.advance()
			return word, l.afterQuote(quote)
		case quote == 0 && (isSpace(c) || c == ';' || c == '{'):
			return unescape(l.text[begin:l.at]), nil
		}
		variable = c == '$'
		l.advance()
	}
	if quote != 0 {
		return "", l.errorf(start, "unterminated quote")
	}
	return "", l.errorf(start, "unexpected end of file in %s (missing \";\" or \"}\"?)", grammar.Quote(l.text[begin:]))
}

// afterQuote checks the character after a closing quote.
func (l *lexer) afterQuote(quote byte) *Error {
	if l.at == len(l.text) {
		return l.errorf(l.here(), "unexpected end of file after a quote (missing \";\"?)")
	}
	if c := l.text[l.at]; !isSpace(c) && c != ';' && c != '{' && c != ')' {
		r, _ := utf8.DecodeRuneInString(l.text[l.at:])
		return l.errorf(l.here(), "unexpected %q after closing %c: quotes must enclose a whole word", r, quote)
	}
	return nil
}

// unescape resolves the backslashes that are not kept.
func unescape(b string) string {
	if strings.IndexByte(b, '\\') < 0 {
		return b
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

func (l *lexer) errorf(at Position, format string, args ...any) *Error {
	return &Error{Pos: at, Text: fmt.Sprintf(format, args...)}
}

// skipBlock skips a block of Lua after its opening brace. Braces in Lua's strings and comments do
// not count; otherwise the block might seem to end after the directives that follow it.
func (l *lexer) skipBlock() *Error {
	start := l.here()
	for depth := 1; l.at < len(l.text); {
		switch c := l.advance(); c {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return nil
			}
		case '"', '\'':
			l.skipLuaString(c)
		case '[':
			l.skipLuaBrackets()
		case '-':
			if l.at == len(l.text) || l.text[l.at] != '-' {
				continue
			}
			l.advance()
			if l.at < len(l.text) && l.text[l.at] == '[' {
				l.advance()
				if l.skipLuaBrackets() {
					continue
				}
			}
			for l.at < len(l.text) && l.text[l.at] != '\n' {
				l.advance()
			}
		}
	}
	return l.errorf(start, "unterminated block (missing \"}\")")
}

// skipLuaString skips a string after its first quote.
func (l *lexer) skipLuaString(quote byte) {
	for l.at < len(l.text) {
		switch c := l.advance(); {
		case c == quote:
			return
		case c == '\\' && l.at < len(l.text):
			l.advance()
		}
	}
}

// skipLuaBrackets skips a long string or comment after its first bracket, such as [[ ]] or [==[
// ]==]. It reports whether there is one.
func (l *lexer) skipLuaBrackets() bool {
	level := 0
	for l.at+level < len(l.text) && l.text[l.at+level] == '=' {
		level++
	}
	if l.at+level >= len(l.text) || l.text[l.at+level] != '[' {
		return false
	}
	end := "]" + strings.Repeat("=", level) + "]"
	n := strings.Index(l.text[l.at:], end)
	if n < 0 {
		n = len(l.text) - l.at - len(end)
	}
	for to := l.at + n + len(end); l.at < to; {
		l.advance()
	}
	return true
}
