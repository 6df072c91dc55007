package contender

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"os/user"
	"strings"
	"text/template"

	"github.com/tarehq/tare/internal/lab/proc"
)

// NginxConf is the data of an experiment's nginx.conf template. The template is the write-up's own
// configuration. The fields stand for values that depend on the machine and on the contender.
type NginxConf struct {
	User        string   // user of the workers; "" if nginx does not run as root
	Workers     int      // number of the servers' processors
	Nofile      uint64   // limit of a worker's file descriptors
	Connections uint64   // limit of a worker's connections
	Dir         string   // scratch: pid, logs, temporary files
	Site        string   // the folder that is served; "" if the contender has none
	Etc         string   // the folder with mime.types and fastcgi_params
	Listen      string   // host:port
	ListenHost  string   // the host of Listen
	Port        int      // the port of Listen
	Host        string   // the request's host
	Protocol    string   // the application's: http or fastcgi
	Upstreams   []string // the application's addresses, as in nginx.conf; none without an application

	Cert string // PEM file of the certificate; "" unless the contender serves TLS
	Key  string // PEM file of its key

	Set map[string]string // the contender's settings; {{.Setting "name"}} is a value, or ""
}

// Upstream returns the application's first address, or "".
func (n *NginxConf) Upstream() string {
	if len(n.Upstreams) == 0 {
		return ""
	}
	return n.Upstreams[0]
}

// Socket returns the path of the application's unix socket; "" if it listens on a port.
func (n *NginxConf) Socket() string {
	path, ok := strings.CutPrefix(n.Upstream(), "unix:")
	if !ok {
		return ""
	}
	return path
}

// Setting returns the value of one of the contender's settings, or "".
func (n *NginxConf) Setting(name string) string { return n.Set[name] }

// The write-ups' limits of a worker, used as far as the machine allows.
const (
	wantedNofile      = 200_000
	wantedConnections = 10_000
)

// fit sets the fields that depend on the machine: the limits of open files and connections, and the
// user.
func (n *NginxConf) fit() {
	n.Nofile = min(wantedNofile, proc.OpenFiles())
	n.Connections = min(wantedConnections, n.Nofile)
	if os.Geteuid() != 0 {
		return
	}
	n.User = "root"
	if _, err := user.Lookup("www-data"); err == nil {
		n.User = "www-data"
	}
}

func (n *NginxConf) render(t *template.Template, file string) ([]byte, error) {
	var b bytes.Buffer
	if err := t.Execute(&b, n); err != nil {
		return nil, fmt.Errorf("nginx.conf: %w", err)
	}
	return b.Bytes(), os.WriteFile(file, b.Bytes(), 0o644)
}

// ParseNginxConf parses an experiment's nginx.conf and checks that NginxConf has the fields that
// the template uses.
func ParseNginxConf(file string) (*template.Template, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return NewNginxConf(file, string(source))
}

// NewNginxConf is like ParseNginxConf, but parses a string. name is used in errors.
func NewNginxConf(name, source string) (*template.Template, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(source)
	if err != nil {
		return nil, err
	}
	return t, t.Execute(new(bytes.Buffer), &NginxConf{Protocol: HTTP})
}

// etcFiles are the files that configurations include, in a folder etc. Those of distributions differ.
//
//go:embed etc
var etcFiles embed.FS
