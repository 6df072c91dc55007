package syntax

import "strings"

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
