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

	Nginx     = "nginx"
	Go        = "go"
	Python    = "python"
	Ruby      = "ruby"
	CC        = "cc"
	MiniHTTPD = "mini-httpd"

	AllCores = "all"
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

	// Needs are tools that must be there: go, nginx, python, ruby, cc, mini-httpd.
	Needs []string `yaml:"needs"`

	// Build makes {bin}; it runs in the contender's folder. Run starts the application,
	// and is empty if the front serves alone. Version prints what the contender consists
	// of, a line each, besides what is known without. All three are words separated by
	// spaces, without a shell, and may have placeholders:
	//
	//	{bin}     what Build makes
	//	{home}    the contender's folder
	//	{dir}     its scratch folder
	//	{port}    where the application must listen, if it is one port
	//	{addr}    the same with the host
	//	{ports}   the same for processes of one port each, behind a front: {cores} ports, with commas
	//	{socket}  the same for a unix socket
	//	{cores}   how many processors it may use: as many processes, if they use one each
	//	{site}    the folder that is served
	//	{venv}    the virtual environment of Python
	//	{ruby}    and {mini-httpd}: the program
	Build   string `yaml:"build"`
	Run     string `yaml:"run"`
	Version string `yaml:"version"`

	// Site is a folder that is served: where the application runs, if it has no other folder, and
	// {site}. It is a copy, which another user can read, with larger files and more of them.
	Site string `yaml:"site"`

	// Cores is "all" if the application has all processors, whatever the condition.
	Cores string `yaml:"cores"`

	// Source are the files of the application, whose lines are counted.
	Source []string `yaml:"source"`

	// Command stands for Run where words hold what a line cannot: an application of
	// the reader's own, in words that are taken as they are. {addr} in them is
	// host:port.
	Command []string `yaml:"command"`

	// Env are variables, "NAME=value", for the application. Values may hold the same
	// placeholders.
	Env []string `yaml:"env"`

	// Folder is where the application runs; "" is its scratch folder. It is absolute, or
	// relative to the folder of the file.
	Folder string `yaml:"folder"`

	// Network is by which of them an application is reached that listens on a port and
	// on a socket: tcp or unix. "" is the one that it was told of.
	Network string `yaml:"network"`

	// Protocol is what the application speaks: http or fastcgi.
	Protocol string `yaml:"protocol"`

	// Front is who stands between the client and the application: nginx, or another
	// that reads nginx's configuration, or nobody if it is empty. Clients speak HTTP to a
	// front, and else what the application speaks, on the port or on the socket.
	Front string `yaml:"front"`

	// FrontBuild makes {front}, and FrontRun starts the front, with the placeholders {bin},
	// {front} and {conf}, the experiment's nginx.conf as it is for this contender. nginx
	// needs neither.
	FrontBuild string `yaml:"front_build"`
	FrontRun   string `yaml:"front_run"`

	// Set are settings for the experiment's nginx.conf, which asks for them by name.
	Set map[string]string `yaml:"set"`

	// Toggles are how it is run with one setting changed.
	Toggles []Toggle `yaml:"toggles"`

	// Module is the Go module whose version is shown, besides Go's own.
	Module string `yaml:"module"`

	Ready struct {
		Within yamlfile.Duration `yaml:"within"`
	} `yaml:"ready"`
}

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
	return s, s.Check(f)
}

// Check returns the first fault of a Spec that was read from a file, with the line
// where it stands.
func (s *Spec) Check(f *yamlfile.File) error {
	for _, required := range []struct{ key, value string }{
		{"title", s.Title}, {"about", s.About}, {"run", strings.Join(s.words(), " ") + s.Front}, {"protocol", s.Protocol},
	} {
		if required.value == "" {
			return f.Fault("$."+required.key, "%s is missing", required.key)
		}
	}
	if s.Protocol != HTTP && s.Protocol != FastCGI {
		return f.Fault("$.protocol", "protocol %q: want %s or %s", s.Protocol, HTTP, FastCGI)
	}
	if err := s.checkFront(f); err != nil {
		return err
	}
	if key, what := s.misplaced(); what != "" {
		return f.Fault("$."+key, "%s: %s", key, what)
	}
	if s.Cores != "" && s.Cores != AllCores {
		return f.Fault("$.cores", "cores %q: want %s, or leave it out", s.Cores, AllCores)
	}
	for i, need := range s.Needs {
		if all := needs(); !slices.Contains(all, need) {
			return f.Fault(fmt.Sprintf("$.needs[%d]", i), "needs %q: tare cannot provide that; want %s", need, oneOf(all))
		}
	}
	if err := s.checkFiles(f); err != nil {
		return err
	}
	if err := s.checkLines(f); err != nil {
		return err
	}
	return s.checkToggles(f)
}

// checkFront sees that a front can be started. Whatever it is, its nginx.conf includes files that come with nginx.
func (s *Spec) checkFront(f *yamlfile.File) error {
	switch own := s.FrontRun != ""; {
	case s.Front == "" && (own || s.FrontBuild != ""):
		return f.Fault("$.front", "front is missing, and there is a front_build or front_run")
	case s.Front == Nginx && (own || s.FrontBuild != ""):
		return f.Fault("$.front", "front %q: it needs no front_build and no front_run", s.Front)
	case s.Front != "" && s.Front != Nginx && !own:
		return f.Fault("$.front", "front %q: want %s, or a front_run that starts it, or leave it out", s.Front, Nginx)
	case s.Front == Nginx && !slices.Contains(s.Needs, Nginx):
		return f.Fault("$.needs", "the front is nginx, but needs does not say so")
	case s.Front != "" && !slices.Contains(s.Needs, Nginx):
		return f.Fault("$.needs", "the front reads an nginx.conf, whose files come with nginx, but needs does not say so")
	}
	return nil
}

func (s *Spec) checkFiles(f *yamlfile.File) error {
	for i, name := range s.Source {
		if info, err := os.Stat(filepath.Join(s.Dir, name)); err != nil || !info.Mode().IsRegular() {
			return f.Fault(fmt.Sprintf("$.source[%d]", i), "source: there is no file %q", name)
		}
	}
	if s.Site != "" && !s.isFolder(s.Site) {
		return f.Fault("$.site", "site: there is no folder %q", s.Site)
	}
	return nil
}

func (s *Spec) checkLines(f *yamlfile.File) error {
	for _, words := range []struct{ key, line string }{
		{"build", s.Build}, {"run", s.Run}, {"version", s.Version}, {"front_build", s.FrontBuild}, {"front_run", s.FrontRun},
	} {
		key, line := words.key, words.line
		if strings.ContainsAny(line, "\"'\\") {
			return f.Fault("$."+key, "%s: there is no shell to take quotes away; words are separated by spaces", key)
		}
		for _, word := range strings.Fields(line) {
			if open := strings.IndexByte(word, '{'); open >= 0 && !known(word[open:]) {
				return f.Fault("$."+key, "%s: %q: want %s", key, word, oneOf(placeholders()))
			}
		}
	}
	return nil
}

func needs() []string { return []string{Go, Nginx, Python, Ruby, CC, MiniHTTPD} }

func placeholders() []string {
	return []string{"{bin}", "{home}", "{dir}", "{cores}", "{venv}", "{ruby}", "{mini-httpd}", "{site}", "{addr}", "{port}", "{ports}", "{socket}", "{front}", "{conf}"}
}

func known(word string) bool {
	return slices.ContainsFunc(placeholders(), func(p string) bool { return strings.HasPrefix(word, p) })
}

// oneOf names what may be chosen from.
func oneOf(all []string) string {
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}
