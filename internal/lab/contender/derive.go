package contender

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Derivation describes the contenders that are derived from a server: those that serve another
// application, listen elsewhere, speak FastCGI or TLS, or stand behind a front. Find makes them.
type Derivation struct {
	About string `yaml:"about"` // the server, as after "in front of"

	// TCP are the arguments at the end of Run. Unix replaces them for a unix socket; TLS is added
	// for TLS. "" means that the server cannot do it.
	TCP  string `yaml:"tcp"`
	Unix string `yaml:"unix"`
	TLS  string `yaml:"tls"`

	FastCGI struct {
		Args  string `yaml:"args"` // added for FastCGI; "" means that the server does not speak it
		Title string `yaml:"title"`
		About string `yaml:"about"`
	} `yaml:"fastcgi"`

	Applications map[string]Application `yaml:"applications"`
}

// Application is one that a server serves instead of its default.
type Application struct {
	Args  string `yaml:"args"`  // added for the application
	Title string `yaml:"title"` // "" is the server's
	About string `yaml:"about"`
	Site  string `yaml:"site"`
}

// frontFile is the name of a front's file, in a subfolder of fronts/ beside the contenders.
const frontFile = "front.yaml"

// Front is the content of a front.yaml: a server that stands in front of others.
type Front struct {
	Title  string   `yaml:"title"`
	About  string   `yaml:"about"` // as in "nginx in front of"
	Needs  []string `yaml:"needs"`
	Run    string   `yaml:"run"`    // see Spec.FrontRun; "" is nginx
	Config string   `yaml:"config"` // its configuration, like an experiment's nginx.conf; "" is that one
	Module string   `yaml:"module"`

	// Reload is a command that makes it read its configuration again; "" is SIGHUP. It may have the
	// placeholders {conf} and {dir}.
	Reload string `yaml:"reload"`

	Lacks []string `yaml:"lacks"` // FastCGI or TLS, if it cannot speak it
}

// TLS is a word of the names of derived contenders, and of Front.Lacks.
const TLS = "tls"

func notFound(dir, name, why string) error {
	return &yamlfile.Error{File: filepath.Join(dir, name, FileName), What: "no such contender: " + why}
}

// Find returns the contender with a name: the one in the subfolder dir/name, or one derived from
// the server in a subfolder. If there is none, the error is a *yamlfile.Error. The name of a
// derived contender is
//
//	[FRONT-][APPLICATION-]SERVER[-fcgi][-tcp|-unix][-tls]
//
// where FRONT is a subfolder of dir/fronts, SERVER one of dir with a Derivation, and APPLICATION
// one of the Derivation's. A front speaks TLS with clients and not with the server.
func Find(dir, name string) (*Spec, error) {
	own := filepath.Join(dir, name)
	if _, err := os.Stat(filepath.Join(own, FileName)); err == nil || strings.Contains(name, "/") {
		return ReadSpec(own)
	}
	w, err := parseWay(dir, name)
	if err != nil {
		return nil, err
	}
	return w.spec(name)
}

type way struct {
	server      *Spec
	front       *Front // nil without
	frontName   string
	application string
	fastCGI     bool
	network     string // "" unless the name has it
	tls         bool
}

func parseWay(dir, name string) (w way, err error) {
	rest := name
	rest, w.tls = strings.CutSuffix(rest, "-"+TLS)
	for _, network := range []string{TCP, Unix} {
		if cut, ok := strings.CutSuffix(rest, "-"+network); ok {
			rest, w.network = cut, network
			break
		}
	}
	rest, w.fastCGI = strings.CutSuffix(rest, "-fcgi")
	fronts, err := filepath.Glob(filepath.Join(dir, "fronts", "*", frontFile))
	if err != nil {
		return w, err
	}
	for _, file := range fronts {
		front := filepath.Base(filepath.Dir(file))
		if cut, ok := strings.CutPrefix(rest, front+"-"); ok {
			rest, w.frontName, w.front = cut, front, new(Front)
			if _, err := yamlfile.Read(file, w.front); err != nil {
				return w, err
			}
			break
		}
	}
	server := rest
	if !isServer(dir, server) {
		var ok bool
		if w.application, server, ok = strings.Cut(rest, "-"); !ok || !isServer(dir, server) {
			return w, notFound(dir, name, "neither a folder nor derived from a server")
		}
	}
	w.server, err = ReadSpec(filepath.Join(dir, server))
	if err == nil && w.server.Derive == nil {
		err = notFound(dir, name, fmt.Sprintf("nothing can be derived from %q", server))
	}
	return w, err
}

func isServer(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name, FileName))
	return err == nil
}

func (w *way) spec(name string) (*Spec, error) {
	is, d := *w.server, w.server.Derive
	is.Name, is.Server, is.Derive = name, w.server.Name, nil
	lacks := func(what string) error {
		return notFound(filepath.Dir(is.Dir), name, is.Server+" cannot serve "+what)
	}
	is.Run = strings.TrimSuffix(is.Run, d.TCP)
	if w.application != "" {
		a, ok := d.Applications[w.application]
		if !ok {
			return nil, lacks(fmt.Sprintf("the application %q", w.application))
		}
		is.Run, is.Site = is.Run+a.Args+" ", a.Site
		is.About, is.Title = d.About+", without a front", cmp.Or(a.Title, is.Title)
		if a.About != "" {
			is.About = d.About + "; " + a.About
		}
	}
	listen := d.TCP
	if w.network == Unix {
		listen = d.Unix
	}
	if w.fastCGI {
		if d.FastCGI.Args == "" {
			return nil, lacks("FastCGI")
		}
		is.Protocol, is.Title = FastCGI, d.FastCGI.Title
		listen = d.FastCGI.Args + " " + listen
	}
	if w.tls && w.front == nil {
		if d.TLS == "" {
			return nil, lacks("TLS")
		}
		listen += " " + d.TLS
		is.About = d.About + " over TLS"
	}
	if listen == "" {
		return nil, lacks("a unix socket")
	}
	is.Run, is.TLS = is.Run+listen, w.tls
	w.describe(&is)
	return &is, w.addFront(&is)
}

func (w *way) describe(s *Spec) {
	d := w.server.Derive
	server := d.About
	if w.fastCGI {
		server = d.FastCGI.About
	}
	switch {
	case w.network == Unix:
		s.Title, server = s.Title+" (unix)", server+" on a unix socket"
	case w.fastCGI:
		s.Title, server = s.Title+" (TCP)", server+" on a TCP port"
	}
	if w.front == nil {
		if w.fastCGI || w.network == Unix {
			s.About = server + ", without a front"
		}
		return
	}
	s.Title = w.front.Title + " → " + s.Title
	s.About = w.front.About + " in front of " + server
	if !w.fastCGI {
		s.About = w.front.About + " as a proxy in front of " + server
	}
}

func (w *way) addFront(s *Spec) error {
	if w.front == nil {
		return nil
	}
	if w.fastCGI && slices.Contains(w.front.Lacks, FastCGI) || w.tls && slices.Contains(w.front.Lacks, TLS) {
		return notFound(filepath.Dir(s.Dir), s.Name, w.front.Title+" lacks "+strings.Join(w.front.Lacks, " and "))
	}
	s.Front, s.FrontRun, s.reload = w.frontName, w.front.Run, w.front.Reload
	if w.front.Config != "" {
		s.Config = filepath.Join("..", "fronts", w.frontName, w.front.Config)
	}
	if w.front.Module != "" {
		s.Module = w.front.Module
	}
	for _, need := range w.front.Needs {
		if !slices.Contains(s.Needs, need) {
			s.Needs = append(slices.Clip(s.Needs), need)
		}
	}
	return nil
}
