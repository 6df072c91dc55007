//go:build !race

package laws

import (
	"go/ast"
	"go/doc/comment"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/goccy/go-yaml"
)

// bannedNames are words that no identifier contains, with the words that stand for them. They are
// the project's own inventions, or describe software as a person. Phrases of texts are in
// .vale/tare/Words.yml.
var bannedNames = map[string]string{
	"answer": "response", "answers": "responses", "answered": "responded",
	"ask": "request", "asks": "requests", "asked": "requested, due", "asking": "requesting",
	"told": "reported", "said": "text, reported", "says": "sentence, conclusion",
	"nursery": "pending", "shelf": "registry", "greeted": "sniHost", "needles": "matcher",
	"voice": "stderrLog", "certbook": "certStore", "hygiene": "goroutineReset",
	"shake": "handshake", "whoever": "client", "twoways": "tunnel",
}

// bannedPhrases returns phrases of comments, texts and documents, with what to write in their
// place. They are the prose linter's, which reads documents and comments, but no strings of
// programs.
func bannedPhrases(t *testing.T) map[*regexp.Regexp]string {
	t.Helper()
	text, err := os.ReadFile(".vale/tare/Words.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Swap map[string]string `yaml:"swap"`
	}
	if err := yaml.Unmarshal(text, &rule); err != nil || len(rule.Swap) == 0 {
		t.Fatal(rule.Swap, err)
	}
	phrases := make(map[*regexp.Regexp]string)
	for phrase, instead := range rule.Swap {
		phrases[regexp.MustCompile(`(?i)\b(?:`+phrase+`)\b`)] = instead
	}
	return phrases
}

// mayName lists words that the names of a room and its subfolders may have nevertheless.
var mayName = map[string]string{
	"internal/dns/ answer":  "the name of a section of messages (RFC 1035, 4.1)",
	"internal/dns/ answers": "the name of a section of messages (RFC 1035, 4.1)",
}

// isExcepted reports whether a file's names may have a word.
func isExcepted(path, word string) bool {
	for key := range mayName {
		if room, excepted, _ := strings.Cut(key, " "); strings.HasPrefix(path, room) && word == excepted {
			return true
		}
	}
	return false
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
	for path, f := range all {
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				for _, word := range words(id.Name) {
					if instead := bannedNames[word]; instead != "" && !isExcepted(path, word) {
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
	phrases := bannedPhrases(t)
	check := func(where, text string) {
		text = strings.Join(strings.Fields(strings.ReplaceAll(text, "//", " ")), " ")
		for phrase, instead := range phrases {
			if at := phrase.FindStringIndex(text); at != nil {
				t.Errorf("%s: write %q: %s", where, instead, text[max(0, at[0]-40):min(len(text), at[1]+20)])
			}
		}
	}
	fset, all := files(t)
	for path, f := range all {
		if path == "internal/laws/words_test.go" {
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

// Texts of libraries do not mention the command's flags. A literal of one word is an argument, such
// as those of other programs.
func TestLibrariesDoNotMentionFlags(t *testing.T) {
	fset, all := files(t)
	flag := regexp.MustCompile("(^|[\"`\\s('/])--[a-z]")
	for path, f := range all {
		isCommand := slices.ContainsFunc([]string{"cmd/", "internal/cli/", "internal/dialect/", "contenders/"},
			func(room string) bool { return strings.HasPrefix(path, room) })
		if isTest(path) || isCommand {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, " ") &&
				flag.MatchString(lit.Value) {
				t.Errorf("%s: %s mentions a flag: the command adds it", fset.Position(lit.Pos()), lit.Value)
			}
			return true
		})
	}
}

// maxSentenceWords limits sentences of comments. The aim is 25. .vale/tare/Sentences.yml is the
// same for documents.
const maxSentenceWords = 40

func TestSentencesOfCommentsAreShort(t *testing.T) {
	fset, all := files(t)
	end := regexp.MustCompile(`[.!?]["')]*\s+`)
	for _, f := range all {
		for _, group := range f.Comments {
			for _, text := range paragraphs(new(comment.Parser).Parse(group.Text()).Content) {
				for _, sentence := range end.Split(text, -1) {
					if n := len(strings.Fields(sentence)); n > maxSentenceWords {
						t.Errorf("%s: a sentence of %d words, want at most %d: %.80s…", fset.Position(group.Pos()), n,
							maxSentenceWords, sentence)
					}
				}
			}
		}
	}
}

// paragraphs returns the paragraphs of a comment, including those of lists.
func paragraphs(blocks []comment.Block) (all []string) {
	for _, block := range blocks {
		switch b := block.(type) {
		case *comment.Paragraph:
			text := new(comment.Printer).Text(&comment.Doc{Content: []comment.Block{b}})
			all = append(all, string(text))
		case *comment.List:
			for _, item := range b.Items {
				all = append(all, paragraphs(item.Content)...)
			}
		}
	}
	return all
}

func TestWordsAreAllowed(t *testing.T) {
	for identifier, want := range map[string]string{
		"a": "a", "aWord": "a word", "HTTPServer": "http server", "isTLS": "is tls", "two_words": "two words",
		"fcgi2": "fcgi",
	} {
		if got := strings.Join(words(identifier), " "); got != want {
			t.Errorf("%s: got %q, want %q", identifier, got, want)
		}
	}
}
