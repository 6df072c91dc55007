package nginxconf

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/nginx-directives.md anew")

const documentFile = "../../docs/nginx-directives.md"

// document is the table as people read it.
func document() string {
	var b strings.Builder
	b.WriteString(`# nginx's directives, and what becomes of them

This is made of [front/nginxconf/directives.txt](../front/nginxconf/directives.txt) by the test of the same folder, with ` + "`-update`" + `.

- **honoured**: done as nginx does it, but for what the remark says.
- **noted**: accepted and checked, though it means nothing in a Go process, or something else; the remark says what. ` + "`tare serve -t`" + ` prints it.
- **refused**: an error that names file and line. With ` + "`--lenient`" + ` it is left out and listed, and the location, server or http block that it is in is closed: requests get 503 there.
- **refused, harmless**: likewise an error. With ` + "`--lenient`" + ` it is only left out and listed: it cannot decide which clients get which response.

A directive that is in no table here is unknown, and always an error.
`)
	section := ""
	for _, s := range newTable().all {
		if s.section != section {
			section = s.section
			b.WriteString("\n## " + section + "\n\n| directive | in | becomes | remark |\n|---|---|---|---|\n")
		}
		word := []string{"honoured", "noted", "refused"}[s.becomes]
		if s.harmless {
			word += ", harmless,"
			if s.unless == nil {
				word = strings.TrimSuffix(word, ",")
			}
		}
		if s.unless != nil {
			word += " unless " + strings.Join(s.unless, " or ")
		}
		b.WriteString("| `" + s.name + "` | " + strings.Join(s.contexts, ", ") + " | " + word + " | " + s.remark + " |\n")
	}
	return b.String()
}

func TestDocumentIsOfTheTable(t *testing.T) {
	if *update {
		if err := os.WriteFile(documentFile, []byte(document()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != document() {
		t.Error("docs/nginx-directives.md is not made of the table: run this test with -update")
	}
}

func TestTable(t *testing.T) {
	levels := []string{"main", "events", "http", "server", "server/if", "location", "location/if", "limit_except", "upstream", "any"}
	kinds := []string{"count", "flag", "number", "size", "offset", "time", "seconds", "buffers", "one", "some", "words"}
	seen := make(map[string]bool)
	for _, s := range newTable().all {
		for _, c := range s.contexts {
			if !slices.Contains(levels, c) {
				t.Errorf("%s: there is no context %s", s.name, c)
			}
			if seen[s.name+" "+c] {
				t.Errorf("%s is twice in %s", s.name, c)
			}
			seen[s.name+" "+c] = true
		}
		if !slices.Contains(kinds, s.kind) {
			t.Errorf("%s: there is no kind %s", s.name, s.kind)
		}
		if needs := s.kind == "one" || s.kind == "some" || s.kind == "words"; needs != (len(s.details) > 0) && s.kind != "number" {
			t.Errorf("%s has the arguments %s", s.name, s.arguments)
		}
		if s.remark == "" && s.becomes != honoured {
			t.Errorf("%s: why is missing", s.name)
		}
	}
}

func TestFamilies(t *testing.T) {
	table := newTable()
	for name, want := range map[string]string{
		"uwsgi_param": "uwsgi_*", "uwsgi_pass": "uwsgi_pass", "content_by_lua_block": "*_by_lua_block", "set_by_lua": "*_by_lua", "lua_package_path": "lua_*", "perl": "perl*", "brotli": "brotli*",
	} {
		if s, ok := table.find(name, levelLocation); !ok || s.name != want {
			t.Errorf("%s is found as %+v", name, s)
		}
	}
	if s, _ := table.find("nosuch", levelHTTP); s != nil {
		t.Errorf("nosuch is %+v", s)
	}
}
