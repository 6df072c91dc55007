package lab

import (
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
	return nil
}
