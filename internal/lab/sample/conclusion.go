package sample

import "strings"

// FillConclusion replaces each placeholder of an experiment's conclusion, such as "{tare, nginx}",
// by what value returns for its names. If that is "" once, FillConclusion returns "".
func FillConclusion(conclusion string, value func(names []string) string) string {
	var b strings.Builder
	for {
		before, rest, more := strings.Cut(conclusion, "{")
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
		conclusion = after
	}
}
