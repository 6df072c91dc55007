package nginxconf

import (
	"cmp"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
	"github.com/tarehq/tare/internal/testkit"
)

var update = flag.Bool("update", false, "write docs/nginx-directives.md anew")

const documentFile = "../../docs/nginx-directives.md"

// useFile has the numbers of projects that use a directive or parameter.
const useFile = "testdata/use.txt"

// readUse returns these numbers by the names in useFile, and the names of parameters in order.
func readUse(t *testing.T) (use map[string]string, parameters []string) {
	t.Helper()
	b := testkit.Value(os.ReadFile(useFile))(t)
	use = make(map[string]string)
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, entry := range strings.Fields(line) {
			name, number, _ := strings.Cut(entry, "=")
			use[name] = number
			if strings.Contains(name, ":") {
				parameters = append(parameters, name)
			}
		}
	}
	return use, parameters
}

// document returns the table as Markdown.
func document(t *testing.T) string {
	use, parameters := readUse(t)
	var b strings.Builder
	b.WriteString(`# Support of nginx's directives

The test of front/nginxconf generates this file from [directives.txt](../front/nginxconf/directives.txt), with ` + "`-update`" + `.

- **supported**: works as in nginx, except for what the remark says.
- **ignored**: accepted and checked, but without effect or with a different one; see the remark. ` + "`tare serve -t`" + ` lists such directives.
- **rejected**: an error with file and line. With ` + "`--lenient`" +
		` the directive is left out and listed, and the location, server or http block that contains it is closed: requests get 503 there.
- **rejected, harmless**: also an error. With ` + "`--lenient`" +
		` the directive is only left out and listed: it cannot decide which clients get which response.

Other directives are unknown, and always errors.

The last column is the number of projects that use the directive, of ` + use["projects"] + ` public ones whose nginx
configurations were read. [use.txt](../front/nginxconf/` + useFile + `) names them.
`)
	section := ""
	table := syntax.ParseTable(tableText)
	for _, s := range table.All {
		if s.Section != section {
			section = s.Section
			b.WriteString("\n## " + section + "\n\n| directive | allowed in | support | remark | used |\n" +
				"|---|---|---|---|---|\n")
		}
		word := []string{"supported", "ignored", "rejected"}[s.Support]
		if s.Harmless {
			word += ", harmless,"
			if s.Unless == nil {
				word = strings.TrimSuffix(word, ",")
			}
		}
		if s.Unless != nil {
			word += " unless " + strings.Join(s.Unless, " or ")
		}
		b.WriteString("| `" + s.Name + "` | " + strings.Join(s.Contexts, ", ") + " | " + word + " | " +
			s.Remark + " | " + cmp.Or(use[useName(table, s)], "0") + " |\n")
	}
	b.WriteString("\n## Use of parameters\n\nThose that are not listed are used by no project.\n\n" +
		"| directive | parameter | used |\n|---|---|---|\n")
	for _, name := range parameters {
		directive, parameter, _ := strings.Cut(name, ":")
		b.WriteString("| `" + directive + "` | `" + parameter + "` | " + use[name] + " |\n")
	}
	return b.String()
}

// useName returns the name of a directive in useFile.
func useName(table *syntax.Table, s *syntax.Spec) string {
	if len(table.ByName[s.Name]) > 1 {
		return s.Contexts[0] + "/" + s.Name
	}
	return s.Name
}

func TestDocumentIsUpToDate(t *testing.T) {
	want := document(t)
	if *update {
		testkit.Must(t, os.WriteFile(documentFile, []byte(want), 0o600))
	}
	b := testkit.Value(os.ReadFile(documentFile))(t)
	if string(b) != want {
		t.Error("docs/nginx-directives.md is out of date: run this test with -update")
	}
}

func TestTableIsConsistent(t *testing.T) {
	levels := []string{"main", "events", "http", "server", "server/if", "location", "location/if", "limit_except",
		"upstream", "match", "acme_issuer", "otel_exporter", "any"}
	kinds := []string{"count", "flag", "number", "size", "offset", "time", "seconds", "buffers", "one", "some", "words",
		"forms"}
	seen := make(map[string]bool)
	for _, s := range syntax.ParseTable(tableText).All {
		for _, c := range s.Contexts {
			testkit.Equal(t, slices.Contains(levels, c), true, s.Name, "has a known context", c)
			testkit.Equal(t, seen[s.Name+" "+c], false, s.Name, "has another row for", c)
			seen[s.Name+" "+c] = true
		}
		testkit.Equal(t, slices.Contains(kinds, s.Kind), true, s.Name, "has a known kind", s.Kind)
		if needs := s.Kind == "one" || s.Kind == "some" || s.Kind == "words" || s.Kind == "forms"; needs !=
			(len(s.Details) > 0) && s.Kind != "number" {
			t.Errorf("%s: invalid arguments %s", s.Name, s.Arguments)
		}
		if s.Remark == "" && s.Support != syntax.Supported {
			t.Errorf("%s: missing remark", s.Name)
		}
	}
}
