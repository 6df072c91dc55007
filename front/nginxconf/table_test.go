package nginxconf

import (
	"cmp"
	"crypto/x509"
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
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
			t.Errorf("%s: invalid details %q of %s", s.Name, s.Details, s.Kind)
		}
		if s.Remark == "" && s.Support != syntax.Supported {
			t.Errorf("%s: missing remark", s.Name)
		}
	}
}

// sample is a directive at a place, with what it needs to have an effect.
type sample struct{ level, text, needs string }

// base is a configuration in whose places a sample has an effect.
const base = `@main events { @events } http {
	proxy_cache_path /c keys_zone=c:1m; fastcgi_cache_path /d keys_zone=d:1m; fastcgi_cache_key z;
	limit_req_zone $host zone=r:1m rate=1r/s; limit_conn_zone $host zone=n:1m;
	map $host $of_map { @map }
	upstream u { server a; @upstream } match m { @match }
	acme_issuer i { uri https://i.test/; @issuer }
	acme_issuer j { uri https://j.test/; }
	@http
	server { listen 81; @server
		location /p { proxy_pass http://u; @proxy }
		location /s { proxy_pass https://u; @https }
		location /f { fastcgi_pass u; @fastcgi }
		location /l { @location }
	}
	server { listen 443 ssl; ssl_certificate c.pem; ssl_certificate_key c.key; @ssl }
	server { listen 444 ssl; server_name a.test; ssl_reject_handshake on; @acme }
}`

// samples reads testdata/samples.txt.
func samples(t *testing.T) map[string][]sample {
	t.Helper()
	b := testkit.Value(os.ReadFile("testdata/samples.txt"))(t)
	all := make(map[string][]sample)
	for line := range strings.Lines(string(b)) {
		words := append(strings.Split(strings.TrimSuffix(line, "\n"), " | "), "", "", "")
		name := words[0]
		switch {
		case name == "" || name[0] == '#':
		case words[1] == "":
			all[name] = nil
		default:
			all[name] = append(all[name], sample{words[1], words[2], words[3]})
		}
	}
	return all
}

// fill inserts a sample into the base.
func fill(s sample) string {
	text := base
	s.text = s.needs + " " + s.text
	if s.level == "match" {
		text = strings.Replace(text, "@proxy", "health_check match=m;", 1)
	}
	for _, level := range []string{"main", "events", "https", "http", "map", "upstream", "match", "server",
		"ssl", "proxy", "fastcgi", "location", "issuer", "acme"} {
		in := ""
		if level == s.level {
			in = s.text
		}
		text = strings.Replace(text, "@"+level, in, 1)
	}
	return text
}

// Every supported directive has an effect, and each of its forms a different one.
func TestSupportedDirectiveHasAnEffect(t *testing.T) {
	testkit.NoRace(t, "it parses thousands of configurations in one goroutine")
	fsys := withCertificate(t, fstest.MapFS{"gzip.conf": {Data: []byte("gzip on;")}, "key": {Data: []byte("x")},
		"ticket.key": {Data: make([]byte, 48)}})
	parse := func(text string) string {
		fsys["nginx.conf"] = &fstest.MapFile{Data: []byte(text)}
		r, err := Parse("nginx.conf", Options{FS: fsys, DefaultPort: 80, HTTP3: true, Tracing: true})
		if err != nil {
			t.Errorf("%s\n%v", text, err)
			return ""
		}
		return dumped(t, r)
	}
	all := samples(t)
	for _, s := range syntax.ParseTable(tableText).All {
		own, ok := all[s.Name]
		if s.Support == syntax.Supported && !ok {
			t.Errorf("%s is supported, but has no sample", s.Name)
		}
		seen := make(map[string]string)
		for _, sample := range own {
			without := sample
			without.text = ""
			seen[parse(fill(without))] = "its absence"
			got := parse(fill(sample))
			if other, ok := seen[got]; ok {
				t.Errorf("%s %s: same effect as %s", sample.level, sample.text, other)
			}
			seen[got] = sample.text
		}
	}
}

// withCertificate adds a certificate and its key to files.
func withCertificate(t *testing.T, fsys fstest.MapFS) fstest.MapFS {
	t.Helper()
	cert, key := tlstest.SelfSign(t, x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	fsys["c.pem"], fsys["c.key"] = &fstest.MapFile{Data: cert}, &fstest.MapFile{Data: key}
	return fsys
}

// at returns the location with a path, at any depth.
func at(t *testing.T, r *Result, path string) *conf.Location {
	t.Helper()
	var find func(all []conf.Location) *conf.Location
	find = func(all []conf.Location) *conf.Location {
		for i := range all {
			if all[i].Path == path {
				return &all[i]
			}
			if found := find(all[i].Locations); found != nil {
				return found
			}
		}
		return nil
	}
	for i := range r.Config.Hosts {
		if found := find(r.Config.Hosts[i].Locations); found != nil {
			return found
		}
	}
	t.Fatalf("no location %s", path)
	return nil
}

// Servers whose locations have the same directives share Settings, which are those that each server
// has alone. If the names of a server or the path of a location matter, they are not shared.
func TestSharedSettingsAreThoseOfEachServerAlone(t *testing.T) {
	testkit.NoRace(t, "it parses thousands of configurations in one goroutine")
	fsys := withCertificate(t, fstest.MapFS{"key": {Data: []byte("x")}})
	all := []sample{{text: "alias /a/;"}, {text: "valid_referers none server_names;"},
		{text: "valid_referers a.test; valid_referers b.test;"}, {text: "types { a/b c; }"}, {text: "types { a/b d; }"}}
	for _, s := range slices.Concat(slices.Collect(maps.Values(samples(t)))...) {
		if s.level == "location" {
			all = append(all, s)
		}
	}
	settings := func(servers string) (all []*conf.Settings) {
		for p := range placesIn(t, fsys, servers) {
			all = append(all, p.Settings)
		}
		return all
	}
	var shared int
	for _, s := range all {
		text := s.needs + " " + s.text
		a, b := serverWith("a.test", "/a", text), serverWith("b.test", "/b", text)
		got := settings(serverWith("c.test", "/c", "") + a + b)[3:]
		testkit.Equal(t, got, slices.Concat(settings(a), settings(b)), text)
		if got[1] == got[4] {
			shared++
		}
	}
	testkit.Between(t, shared, len(all)/2, len(all), "kinds of settings that are shared")
}

// Locations with the same directives about upstreams share a Proxy, which is that of each alone.
func TestSharedProxiesAreThoseOfEachServerAlone(t *testing.T) {
	testkit.NoRace(t, "it parses thousands of configurations in one goroutine")
	fsys := withCertificate(t, fstest.MapFS{"key": {Data: []byte("x")}})
	passes := map[string]string{"proxy": "proxy_pass http://u;", "https": "proxy_pass https://u;",
		"fastcgi": "fastcgi_pass u;"}
	proxies := func(servers string) (all []*conf.Proxy, texts []string) {
		for p := range placesIn(t, fsys, servers) {
			if p.Location != nil && p.Location.Proxy != nil {
				all = append(all, p.Location.Proxy)
				one := *p.Location.Proxy // dumped changes it
				texts = append(texts, dumped(t, &Result{Config: conf.Config{
					Hosts: []conf.Host{{Locations: []conf.Location{{Proxy: &one}}}}}}))
			}
		}
		return all, texts
	}
	for _, s := range slices.Concat(slices.Collect(maps.Values(samples(t)))...) {
		pass := passes[s.level]
		if pass == "" || strings.Contains(s.text, "health_check") || strings.Contains(s.text, "_pass ") {
			continue
		}
		pass += s.needs + " "
		with, without := serverWith("a.test", "/a", pass+s.text), serverWith("b.test", "/a", pass)
		all, got := proxies(with + without + with)
		_, first := proxies(with)
		_, second := proxies(without)
		if want := slices.Concat(first, second, first); !slices.Equal(got, want) || all[0] != all[2] {
			t.Errorf("%s: got\n%s\nwant\n%s", pass+s.text, got, want)
		}
	}
}

// serverWith returns a server with a location.
func serverWith(name, path, text string) string {
	return fmt.Sprintf("server { listen 81; server_name %s; location %s { %s\nlocation %[2]s/in { } } }\n", name, path,
		text)
}

// placesIn returns the places of a configuration with servers, and files.
func placesIn(t *testing.T, fsys fstest.MapFS, servers string) iter.Seq[places.Place] {
	t.Helper()
	fsys["nginx.conf"] = &fstest.MapFile{Data: []byte(inHTTP("limit_req_zone $host zone=r:1m rate=1r/s;" +
		"limit_conn_zone $host zone=n:1m; proxy_cache_path /c keys_zone=c:1m; fastcgi_cache_path /d keys_zone=d:1m;" +
		"fastcgi_cache_key z; upstream u { server a; }\n" + servers))}
	r, err := Parse("nginx.conf", Options{FS: fsys, DefaultPort: 80, Tracing: true})
	if err != nil {
		t.Fatalf("%s\n%v", servers, err)
	}
	return places.Of(&r.Config)
}
