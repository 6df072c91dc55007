package tare_test

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
	"unicode"
)

// bannedNames are words that no identifier contains, with the words that stand for them. They are
// the project's own inventions, or tell of software as of people.
var bannedNames = map[string]string{
	"answer": "response", "answers": "responses", "answered": "responded",
	"ask": "request", "asks": "requests", "asked": "requested, due", "asking": "requesting",
	"told": "reported", "said": "text, reported", "says": "sentence, conclusion",
	"nursery": "pending", "shelf": "registry", "greeted": "sniHost", "needles": "matcher",
	"voice": "stderrLog", "certbook": "certStore", "hygiene": "goroutineReset",
	"shake": "handshake", "whoever": "client", "twoways": "tunnel",
}

// bannedPhrases are phrases of comments, errors and documents, with what to write in their place.
var bannedPhrases = map[string]string{
	"processor time":   "CPU time",
	"is told":          "receives, reads",
	"are told":         "receive, read",
	"is asked for":     "is requested",
	"is to be had":     "is available",
	"cannot be had":    "is unavailable",
	"whoever":          "the client, the caller",
	"behaviour":        "behavior",
	"neighbour":        "neighbor",
	"colour":           "color",
	"no longer to be ": "no longer",
}

// words splits an identifier into its words, in lower case.
func words(identifier string) (all []string) {
	start := 0
	runes := []rune(identifier)
	for i := 1; i <= len(runes); i++ {
		isEnd := i == len(runes) || runes[i] == '_' || unicode.IsUpper(runes[i]) &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if isEnd {
			all = append(all, strings.ToLower(strings.Trim(string(runes[start:i]), "_0123456789")))
			start = i
		}
	}
	return all
}

// Names are made of the field's words.
func TestNamesHaveNoBannedWords(t *testing.T) {
	fset, all := files(t)
	for _, f := range all {
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				for _, word := range words(id.Name) {
					if instead := bannedNames[word]; instead != "" {
						t.Errorf("%s: %s: say %s", fset.Position(id.Pos()), id.Name, instead)
					}
				}
			}
			return true
		})
	}
}

// Comments, texts and documents use the field's words.
func TestTextsHaveNoBannedPhrases(t *testing.T) {
	check := func(where, text string) {
		text = strings.Join(strings.Fields(strings.ReplaceAll(text, "//", " ")), " ")
		for phrase, instead := range bannedPhrases {
			if i := strings.Index(text, phrase); i >= 0 {
				t.Errorf("%s: %q: write %s: %s", where, phrase, instead,
					text[max(0, i-40):min(len(text), i+len(phrase)+20)])
			}
		}
	}
	fset, all := files(t)
	for path, f := range all {
		if path == "law_words_test.go" {
			continue
		}
		for _, group := range f.Comments {
			check(fset.Position(group.Pos()).String(), group.Text())
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				check(fset.Position(lit.Pos()).String(), lit.Value)
			}
			return true
		})
	}
	for document, text := range documents(t) {
		check(document, prose(text))
	}
}

func TestWords(t *testing.T) {
	for identifier, want := range map[string]string{
		"a": "a", "aWord": "a word", "HTTPServer": "http server", "isTLS": "is tls", "two_words": "two words",
		"fcgi2": "fcgi",
	} {
		if got := strings.Join(words(identifier), " "); got != want {
			t.Errorf("%s: got %q, want %q", identifier, got, want)
		}
	}
}
