package contender

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/lab/yamlfile"
)

// FileName is the file that makes a folder a contender.
const FileName = "contender.yaml"

// What a Spec may say.
const (
	HTTP    = "http"
	FastCGI = "fastcgi"
	Nginx   = "nginx"
	Go      = "go"
)

// defaultReady is how long a contender may take until it answers.
const defaultReady = 10 * time.Second

// Spec is a contender.yaml.
type Spec struct {
	Name string `yaml:"-"` // the folder's
	Dir  string `yaml:"-"`

	// Title is what reports call it, About one sentence on what it is.
	Title string `yaml:"title"`
	About string `yaml:"about"`

	// Needs are tools that must be there: go, nginx.
	Needs []string `yaml:"needs"`

	// Build makes {bin}; it runs in the contender's folder. Run starts the
	// application: {bin}, {dir} is its scratch folder, and {port} or {socket} is
	// where it must listen. Both are words separated by spaces, without a shell.
	Build string `yaml:"build"`
	Run   string `yaml:"run"`

	// Protocol is what the application speaks: http or fastcgi.
	Protocol string `yaml:"protocol"`

	// Front is who stands between the client and the application: nginx, or nobody if
	// it is empty. Clients speak HTTP to a front, and else what the application speaks,
	// on the port or on the socket.
	Front string `yaml:"front"`

	// Module is the Go module whose version is shown, besides Go's own.
	Module string `yaml:"module"`

	Ready struct {
		Within yamlfile.Duration `yaml:"within"`
	} `yaml:"ready"`
}

// onSocket reports whether the application listens on a unix socket.
func (s *Spec) onSocket() bool { return strings.Contains(s.Run, "{socket}") }

// Place is where a contender takes its clients' requests.
type Place struct {
	Protocol string // that clients speak there: HTTP or FastCGI
	Address  string // host:port, or the path of a unix socket
}

// Network returns what package net calls the kind of the address.
func (p Place) Network() string {
	if filepath.IsAbs(p.Address) {
		return "unix"
	}
	return "tcp"
}

// At returns the place that the contender is when its clients come to an address: to
// a front they speak HTTP, to an application what it speaks.
func (s *Spec) At(address string) Place {
	if s.Front != "" {
		return Place{HTTP, address}
	}
	return Place{s.Protocol, address}
}

// ReadSpec reads the contender in a folder. What is wrong with the file is a
// *yamlfile.Error.
func ReadSpec(dir string) (*Spec, error) {
	s := &Spec{Name: filepath.Base(dir), Dir: dir}
	s.Ready.Within = yamlfile.Duration(defaultReady)
	file := filepath.Join(dir, FileName)
	f, err := yamlfile.Read(file, s)
	if os.IsNotExist(err) {
		return nil, &yamlfile.Error{File: file, What: "no such contender"}
	}
	if err != nil {
		return nil, err
	}
	return s, s.check(f)
}

func (s *Spec) check(f *yamlfile.File) error {
	for _, required := range []struct{ key, value string }{
		{"title", s.Title}, {"about", s.About}, {"run", s.Run}, {"protocol", s.Protocol},
	} {
		if required.value == "" {
			return f.Fault("$."+required.key, "%s is missing", required.key)
		}
	}
	if s.Protocol != HTTP && s.Protocol != FastCGI {
		return f.Fault("$.protocol", "protocol %q: want %s or %s", s.Protocol, HTTP, FastCGI)
	}
	if s.Front != "" && s.Front != Nginx {
		return f.Fault("$.front", "front %q: want %s, or leave it out", s.Front, Nginx)
	}
	if s.onSocket() == strings.Contains(s.Run, "{port}") {
		return f.Fault("$.run", "run: want {port} or {socket}, and not both")
	}
	for i, need := range s.Needs {
		if need != Go && need != Nginx {
			return f.Fault(fmt.Sprintf("$.needs[%d]", i), "needs %q: tare cannot provide that; want %s or %s", need, Go, Nginx)
		}
	}
	if s.Front == Nginx && !slices.Contains(s.Needs, Nginx) {
		return f.Fault("$.needs", "the front is nginx, but needs does not say so")
	}
	for _, words := range []struct{ key, line string }{{"build", s.Build}, {"run", s.Run}} {
		key, line := words.key, words.line
		if strings.ContainsAny(line, "\"'\\") {
			return f.Fault("$."+key, "%s: there is no shell to take quotes away; words are separated by spaces", key)
		}
		for _, word := range strings.Fields(line) {
			if open := strings.IndexByte(word, '{'); open >= 0 && !known(word[open:]) {
				return f.Fault("$."+key, "%s: %q: want {bin}, {dir}, {port} or {socket}", key, word)
			}
		}
	}
	return nil
}

func known(placeholder string) bool {
	for _, p := range []string{"{bin}", "{dir}", "{port}", "{socket}"} {
		if strings.HasPrefix(placeholder, p) {
			return true
		}
	}
	return false
}
