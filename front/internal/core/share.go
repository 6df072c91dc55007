package core

import (
	"strings"
)

// Shared returns the part with a key, and compiles it at its first use. Locations with equal parts
// share them: most parts are inherited.
func Shared[T any](c *Compiler, key any, compile func() (T, error)) (T, error) {
	if part, ok := c.shares[key]; ok {
		return part.(T), nil
	}
	part, err := compile()
	if err == nil {
		c.shares[key] = part
	}
	return part, err
}

// Joined returns a text that is equal for equal lists only, unless they contain NUL.
func Joined[T ~string](list []T) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return string(list[0])
	}
	var b strings.Builder
	for i, element := range list {
		if i > 0 {
			b.WriteByte(0)
		}
		b.WriteString(string(element))
	}
	return b.String()
}
