package lab

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Load is the form of the generator's requests, as a load tool of a write-up sends them.
type Load struct {
	Version       string   `yaml:"version"`        // of HTTP: "1.0" or "1.1", the default
	Header        []string `yaml:"header"`         // "Name: value" each
	PerConnection int      `yaml:"per_connection"` // requests on a connection; 0 is no limit
}

// maxPerConnection is more than any load tool sends. A higher number is a typing error.
const maxPerConnection = 1_000_000

func (l *Load) check(f *yamlfile.File) error {
	if l.Version != "" && l.Version != "1.0" && l.Version != "1.1" {
		return f.Fault("$.load.version", "version %q: want %q or %q", l.Version, "1.0", "1.1")
	}
	if l.PerConnection < 0 || l.PerConnection > maxPerConnection {
		return f.Fault("$.load.per_connection",
			"per_connection: want 0 to %d, got %d", maxPerConnection, l.PerConnection)
	}
	field := regexp.MustCompile(`^[!#$%&'*+.^_|~0-9A-Za-z-]+: *[^\x00-\x1f\x7f]+$`)
	own := []string{"host", "content-length", "transfer-encoding"}
	for i, line := range l.Header {
		at := fmt.Sprintf("$.load.header[%d]", i)
		name, value, _ := strings.Cut(line, ":")
		name = strings.ToLower(name)
		switch {
		case !field.MatchString(line):
			return f.Fault(at, "header %q: want %q", line, "Name: value")
		case slices.Contains(own, name):
			return f.Fault(at, "header %q: the request determines this field", line)
		case name == "connection" && strings.EqualFold(strings.TrimSpace(value), "keep-alive") && l.PerConnection == 1:
			return f.Fault(at, "header %q: contradicts per_connection: 1", line)
		case name == "connection" && strings.EqualFold(strings.TrimSpace(value), "close") && l.PerConnection != 1:
			return f.Fault(at, "header %q: want per_connection: 1 instead", line)
		}
	}
	return nil
}
