package nginxconf

import (
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
	"github.com/tarehq/tare/internal/testkit"
)

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
	testkit.Long(t, "it parses thousands of configurations")
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
	cert, key := testkit.SelfSign(t, x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	fsys["c.pem"], fsys["c.key"] = &fstest.MapFile{Data: cert}, &fstest.MapFile{Data: key}
	return fsys
}
