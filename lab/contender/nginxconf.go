package contender

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"text/template"

	"golang.org/x/sys/unix"
)

// NginxConf is what an experiment's nginx.conf is a template over. The template is
// the write-up's own configuration; these are the places where it must fit the
// machine and the contender.
type NginxConf struct {
	User        string   // whom the workers run as; "" without privilege
	Workers     int      // as many as the processors the servers may use, unless they are swept
	Nofile      uint64   // descriptors a worker may have
	Connections uint64   // connections a worker may have
	Dir         string   // scratch: pid, logs, temporary files
	Site        string   // the folder that is served; "" if the contender names none
	Etc         string   // holds mime.types and fastcgi_params
	Port        int      // to listen on, on 127.0.0.1
	Host        string   // the request's host
	Protocol    string   // the application's: http or fastcgi
	Upstreams   []string // the application's addresses, as nginx writes them; none if nginx serves alone

	Set map[string]string // the contender's settings: {{.Setting "name"}} is one, or ""
}

// Upstream returns the application's address, if it has but one.
func (n *NginxConf) Upstream() string {
	if len(n.Upstreams) == 0 {
		return ""
	}
	return n.Upstreams[0]
}

// Setting returns one of the contender's settings; "" if it has none of the name.
func (n *NginxConf) Setting(name string) string { return n.Set[name] }

// What the write-ups gave a worker, where the machine allows.
const (
	wantedNofile      = 200_000
	wantedConnections = 10_000
)

// fit fills in what depends on the machine.
func (n *NginxConf) fit() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("contender: %w", err)
	}
	n.Nofile = min(wantedNofile, limit.Max)
	n.Connections = min(wantedConnections, n.Nofile)
	if os.Geteuid() != 0 {
		return nil
	}
	n.User = "root"
	if _, err := user.Lookup("www-data"); err == nil {
		n.User = "www-data"
	}
	return nil
}

// render writes the configuration to a file and returns its text.
func (n *NginxConf) render(t *template.Template, file string) ([]byte, error) {
	var b bytes.Buffer
	if err := t.Execute(&b, n); err != nil {
		return nil, fmt.Errorf("nginx.conf: %w", err)
	}
	return b.Bytes(), os.WriteFile(file, b.Bytes(), 0o644)
}

// ParseNginxConf reads an experiment's nginx.conf and checks that it is a template
// over NginxConf.
func ParseNginxConf(file string) (*template.Template, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return NewNginxConf(file, string(source))
}

// NewNginxConf is ParseNginxConf for a text that comes from elsewhere than a file.
func NewNginxConf(name, source string) (*template.Template, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(source)
	if err != nil {
		return nil, err
	}
	return t, t.Execute(new(bytes.Buffer), &NginxConf{Protocol: HTTP})
}
