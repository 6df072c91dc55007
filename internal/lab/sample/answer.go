package sample

import "strings"

// FillAnswer replaces each placeholder of an experiment's answer, such as "{tare, nginx}", by what
// value returns for its names. If that is "" once, FillAnswer returns "".
func FillAnswer(answer string, value func(names []string) string) string {
	var b strings.Builder
	for {
		before, rest, more := strings.Cut(answer, "{")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		list, after, _ := strings.Cut(rest, "}")
		names := strings.Split(list, ",")
		for i := range names {
			names[i] = strings.TrimSpace(names[i])
		}
		text := value(names)
		if text == "" {
			return ""
		}
		b.WriteString(text)
		answer = after
	}
}
