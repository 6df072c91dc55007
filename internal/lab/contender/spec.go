package contender

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// FileName is the name of a contender's file.
const FileName = "contender.yaml"

// Values of Spec's fields: Protocol, Front and Needs, Cores.
const (
	HTTP    = "http"
	FastCGI = "fastcgi"

	Nginx     = "nginx"
	Go        = "go"
	Python    = "python"
	Ruby      = "ruby"
	CC        = "cc"
	Tare      = "tare"
	MiniHTTPD = "mini-httpd"
	H2O       = "h2o"
	Caddy     = "caddy"

	AllCores = "all"

	HAProxy = "haproxy"
	MariaDB = "mariadb"
)

// Load generators, which no contender needs.
const (
	Wrk    = "wrk"
	H2load = "h2load"
	AB     = "ab"
	Siege  = "siege"
)

const defaultReady = 10 * time.Second // default timeout of a contender's first response

// Spec is the content of a contender.yaml.
type Spec struct {
	Name string `yaml:"-"` // the folder's, or that of a derived contender
	Dir  string `yaml:"-"`

	// Server is the name of the folder that a derived contender is derived from; "" if it is none.
	Server string `yaml:"-"`

	// Derive describes the contenders that are derived from this one; nil if there are none.
	Derive *Derivation `yaml:"derive"`

	// Title is its name in reports, About a sentence that describes it.
	Title string `yaml:"title"`
	About string `yaml:"about"`

	// Needs are the required tools: go, nginx, python, ruby, cc, mini-httpd, h2o, caddy,
	// haproxy, mariadb, tare.
	Needs []string `yaml:"needs"`

	// Builtin are the words after "tare" that replace {bin} if Go is missing: tare itself serves.
	Builtin string `yaml:"builtin"`

	// Install is the command with which a reader installs the first program of Build or Run. It is
	// for programs outside Needs: another language's compiler or interpreter.
	Install string `yaml:"install"`

	// Build makes {bin}; it runs in the contender's folder. Run starts the application; it is empty
	// if the front serves alone. Version prints versions of components, one a line, in addition to
	// those that tare finds itself. All three are words separated by spaces, without a shell, and
	// may have placeholders:
	//
	//	{bin}         the result of Build
	//	{home}        the contender's folder
	//	{dir}         its scratch folder
	//	{port}        the port that the application listens on
	//	{addr}        the same as host:port
	//	{ports}       behind a front: {cores} ports, separated by commas, for processes of one port each
	//	{socket}      the path of the unix socket that the application listens on
	//	{cores}       the number of processors that it may use: for processes of one thread, their
	//	              number
	//	{site}        the folder that is served
	//	{venv}        the virtual environment of Python
	//	{ruby}        the program ruby
	//	{mini-httpd}  the program mini_httpd; likewise {h2o}, {caddy}, {haproxy} and {mariadb}
	//	{tare}        the command tare
	//	{cert}        a PEM file with the certificate, one for all contenders of a run
	//	{key}         a PEM file with its key
	Build   string `yaml:"build"`
	Run     string `yaml:"run"`
	Version string `yaml:"version"`

	// Site is a folder that is served. The contender gets a copy, {site}, which all users can read
	// and which has more and larger files. It is the working directory unless Folder is set.
	Site string `yaml:"site"`

	// Cores is "all" if the application has all processors under every condition.
	Cores string `yaml:"cores"`

	// Command replaces Run if arguments contain spaces or quotes, as in the user's own application.
	// Its words are used as they are, except for placeholders.
	Command []string `yaml:"command"`

	// Env are environment variables of the application, "NAME=value". Values may have the same
	// placeholders.
	Env []string `yaml:"env"`

	// Folder is the application's working directory; "" is its scratch folder. It is absolute, or
	// relative to the folder of the file.
	Folder string `yaml:"folder"`

	// Network selects the address that clients use if the application listens on a port and on a
	// socket: tcp or unix. "" is the only one that it has a placeholder for.
	Network string `yaml:"network"`

	Protocol string `yaml:"protocol"` // application's protocol: http or fastcgi

	// Front is the server between clients and the application: nginx, or the name of another one
	// that reads an nginx.conf; "" means none. A front speaks HTTP with clients. Without a front,
	// clients use the application's protocol.
	Front string `yaml:"front"`

	// FrontRun starts a front that is not nginx. It may have the placeholders {bin}, {tare} and
	// {conf}, the path of the contender's nginx.conf.
	FrontRun string `yaml:"front_run"`

	// Config is the front's configuration, a template for NginxConf. It is relative to the folder.
	// "" is the experiment's nginx.conf.
	Config string `yaml:"config"`

	reload string // see Front.Reload

	// TLS is set if clients connect by TLS. The contender serves HTTP/1.1 and HTTP/2 with {cert}.
	TLS bool `yaml:"tls"`

	// Set are the values of {{.Setting "name"}} in the experiment's nginx.conf.
	Set map[string]string `yaml:"set"`

	Module string `yaml:"module"` // Go module whose version is shown in addition to Go's

	Ready struct {
		Within yamlfile.Duration `yaml:"within"`
	} `yaml:"ready"`
}

// Place is the endpoint of a contender for clients.
type Place struct {
	Protocol string // HTTP or FastCGI
	Address  string // host:port, or the path of a unix socket
	TLS      bool   // clients connect by TLS
}

// Network returns package net's name of the network: tcp or unix.
func (p Place) Network() string {
	if filepath.IsAbs(p.Address) {
		return "unix"
	}
	return "tcp"
}

// At returns the place of the contender at an address. Its protocol is HTTP if there is a front,
// and otherwise the application's.
func (s *Spec) At(address string) Place {
	if s.Front != "" {
		return Place{HTTP, address, s.TLS}
	}
	return Place{s.Protocol, address, s.TLS}
}

// ReadSpec reads the contender in a folder. If its file is invalid or missing, the error is a
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

// Check returns a *yamlfile.Error for the first invalid field of a Spec, with its line in the file.
func (s *Spec) Check(f *yamlfile.File) error {
	for _, required := range []struct{ key, value string }{
		{"title", s.Title}, {"about", s.About}, {"run", strings.Join(s.words(), " ") + s.Front},
		{"protocol", s.Protocol},
	} {
		if required.value == "" {
			return f.Fault("$."+required.key, "%s is missing", required.key)
		}
	}
	if s.Protocol != HTTP && s.Protocol != FastCGI {
		return f.Fault("$.protocol", "protocol %q: want %s or %s", s.Protocol, HTTP, FastCGI)
	}
	if s.TLS && s.Protocol != HTTP && s.Front == "" {
		return f.Fault("$.tls", "tls: want protocol %s or a front", HTTP)
	}
	if err := s.checkFront(f); err != nil {
		return err
	}
	if key, what := s.addressFault(); what != "" {
		return f.Fault("$."+key, "%s: %s", key, what)
	}
	if s.Cores != "" && s.Cores != AllCores {
		return f.Fault("$.cores", "cores %q: want %s or nothing", s.Cores, AllCores)
	}
	for i, need := range s.Needs {
		if all := needs(); !slices.Contains(all, need) {
			return f.Fault(fmt.Sprintf("$.needs[%d]", i), "needs %q: unknown tool; want %s", need, oneOf(all))
		}
	}
	if s.Config != "" && (s.Front == "" || !s.has(s.Config, fs.FileMode.IsRegular)) {
		return f.Fault("$.config", "config: want a front, and a file, got %q", s.Config)
	}
	if s.Site != "" && !s.has(s.Site, fs.FileMode.IsDir) {
		return f.Fault("$.site", "site: no folder %q", s.Site)
	}
	return s.checkLines(f)
}

// checkFront returns a *yamlfile.Error if the front cannot be started.
func (s *Spec) checkFront(f *yamlfile.File) error {
	switch own := s.FrontRun != ""; {
	case s.Front == "" && own:
		return f.Fault("$.front", "front is missing; front_run requires it")
	case s.Front == Nginx && own:
		return f.Fault("$.front", "front %q: excludes front_run", s.Front)
	case s.Front != "" && s.Front != Nginx && !own:
		return f.Fault("$.front", "front %q: want %s, or a front_run that starts it", s.Front, Nginx)
	case s.Front == Nginx && !slices.Contains(s.Needs, Nginx):
		return f.Fault("$.needs", "needs: nginx is missing; the front is nginx")
	}
	return nil
}

func (s *Spec) checkLines(f *yamlfile.File) error {
	for _, words := range []struct{ key, line string }{
		{"build", s.Build}, {"run", s.Run}, {"version", s.Version}, {"front_run", s.FrontRun},
	} {
		key, line := words.key, words.line
		if strings.ContainsAny(line, "\"'\\") {
			return f.Fault("$."+key, "%s: quotes are not supported; words are separated by spaces (use command for others)", key)
		}
		for _, word := range strings.Fields(line) {
			if open := strings.IndexByte(word, '{'); open >= 0 && !known(word[open:]) {
				return f.Fault("$."+key, "%s: %q: want %s", key, word, oneOf(placeholders()))
			}
		}
	}
	return nil
}

func needs() []string {
	return []string{Go, Nginx, Python, Ruby, CC, MiniHTTPD, H2O, Caddy, HAProxy, MariaDB, Tare}
}

func placeholders() []string {
	return []string{
		"{bin}", "{home}", "{dir}", "{cores}", "{venv}", "{ruby}", "{mini-httpd}", "{h2o}", "{caddy}", "{haproxy}",
		"{mariadb}", "{tare}", "{site}",
		"{addr}", "{port}", "{ports}", "{socket}", "{conf}", "{cert}", "{key}",
	}
}

func known(word string) bool {
	return slices.ContainsFunc(placeholders(), func(p string) bool { return strings.HasPrefix(word, p) })
}

// oneOf returns a list as a text that ends in "or".
func oneOf(all []string) string {
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}
