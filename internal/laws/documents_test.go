//go:build !race

package laws

import (
	"go/ast"
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

const (
	maxReadmeLines       = 130
	maxArchitectureWords = 1200
)

// documents returns the text of each Markdown file by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	walk(t, ".md", func(path string) { found[path] = string(testkit.Value(os.ReadFile(path))(t)) })
	return found
}

var codeBlock = regexp.MustCompile("(?ms)^```.*?^```")

// prose returns a document without its code blocks.
func prose(text string) string { return codeBlock.ReplaceAllString(text, "") }

var heading = regexp.MustCompile(`(?m)^#+ (.+)$`)

// anchors returns the fragments by which links can name a document's headings, as GitHub makes
// them.
func anchors(text string) map[string]bool {
	found := make(map[string]bool)
	other := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, m := range heading.FindAllStringSubmatch(prose(text), -1) {
		found[strings.ReplaceAll(other.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	t.Chdir(root)
	all := documents(t)
	link := regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(prose(text), -1) {
			target, fragment := m[1], m[2]
			if strings.Contains(target, "://") {
				continue
			}
			path := name
			if target != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(name), target))
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, target)
			} else if fragment != "" && !anchors(all[path])[fragment] {
				t.Errorf("%s links to %s#%s, which is no heading", name, target, fragment)
			}
		}
	}
}

func TestDocumentsAreShort(t *testing.T) {
	t.Chdir(root)
	all := documents(t)
	testkit.Between(t, strings.Count(all["README.md"], "\n"), 0, maxReadmeLines, "lines of README.md")
	testkit.Between(t, len(strings.Fields(all["ARCHITECTURE.md"])), 0, maxArchitectureWords, "words of ARCHITECTURE.md")
}

// README.md names the releases of Go that the Makefile tests with: one of each supported version.
// go.mod requires the first version.
func TestDocumentsNameSupportedReleases(t *testing.T) {
	t.Chdir(root)
	makefile := testkit.Value(os.ReadFile("Makefile"))(t)
	line := regexp.MustCompile(`(?m)^GO_RELEASES := (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no GO_RELEASES")
	}
	releases := strings.Fields(string(line[1]))
	for _, release := range releases {
		testkit.Contains(t, documents(t)["README.md"], strings.TrimPrefix(release, "go"), "README.md")
	}
	module := testkit.Value(os.ReadFile("go.mod"))(t)
	first := strings.TrimPrefix(version.Lang(releases[0]), "go")
	testkit.Contains(t, string(module), "\ngo "+first+".0\n", "go.mod")
}

// Tests that comments and documents name exist: SECURITY.md relies on them for its promises. Those
// of docs/compatibility.md are other projects', and so are some in contenders.
func TestNamedTestsExist(t *testing.T) {
	t.Chdir(root)
	texts, declared := documents(t), make(map[string]bool)
	delete(texts, "docs/compatibility.md")
	for path, f := range files(t) {
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && isTest(path) {
				declared[d.Name.Name] = true
			}
		}
		for _, group := range f.Comments {
			if !strings.HasPrefix(path, "contenders/") {
				texts[path] += group.Text()
			}
		}
	}
	for path, text := range texts {
		for _, test := range testkit.NamesOfTests(text) {
			testkit.Equal(t, declared[test], true, path, "names", test, "which exists")
		}
	}
}

// tableKeys returns what stands in the first cells of a section's tables, and reports keys that
// stand there twice. A cell may hold several keys in backquotes, or one without.
func tableKeys(t *testing.T, document, section string) map[string]bool {
	t.Helper()
	b := testkit.Value(os.ReadFile(document))(t)
	_, text, ok := strings.Cut(string(b), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", document, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	keys := make(map[string]bool)
	for line := range strings.Lines(text) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		for name := range strings.SplitSeq(cell, ", ") {
			key := strings.Trim(name, "`")
			if !strings.HasPrefix(line, "| ") || key == name && !strings.Contains(key, ".") {
				continue // no row of a table, or its heading
			}
			testkit.Equal(t, keys[key], false, document, section, key, "stands there twice")
			keys[key] = true
		}
	}
	return keys
}

func TestArchitectureNamesEveryRoom(t *testing.T) {
	t.Chdir(root)
	named := tableKeys(t, "ARCHITECTURE.md", "Rooms")
	b := testkit.Value(os.ReadFile("ARCHITECTURE.md"))(t)
	diagram := codeBlock.FindString(string(b))
	for path := range rooms(t) {
		if !named[path] && !strings.HasPrefix(path, "contenders") {
			t.Errorf("ARCHITECTURE.md does not name the room %s", path)
		}
		if top, _, _ := strings.Cut(path, "/"); path != "." && !strings.Contains(diagram, top) {
			t.Errorf("the diagram of ARCHITECTURE.md does not show %s", top)
		}
	}
	for name := range named {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("ARCHITECTURE.md names the room %s, which does not exist", name)
		}
	}
}

func TestDecisionsNameEveryDependency(t *testing.T) {
	t.Chdir(root)
	const document = "docs/decisions.md"
	named := tableKeys(t, document, "Dependencies")
	mod := testkit.Value(os.ReadFile("go.mod"))(t)
	direct := make(map[string]bool)
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) == 2 && strings.HasPrefix(fields[1], "v") {
			direct[fields[0]] = true
			if !named[fields[0]] {
				t.Errorf("%s does not say why tare depends on %s", document, fields[0])
			}
		}
	}
	for name := range named {
		if !direct[name] {
			t.Errorf("%s names %s, which is no direct dependency", document, name)
		}
	}
}
