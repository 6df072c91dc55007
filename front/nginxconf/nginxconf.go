package nginxconf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/tarehq/tare/front"
)

// Options are what Parse does not find in nginx.conf. The zero value works.
type Options struct {
	// Prefix is the folder that relative paths of files, folders and logs are below, nginx's -p; "" is the folder of the configuration's
	// first file. That is also the one that includes, certificates and files of passwords are below, as in nginx.
	Prefix string
	// Lenient leaves out what nginx knows and is not done here, and lists it in Result.Ignored; otherwise it is an error. Unless what is
	// left out is known not to decide which clients get which response, the location, server or http block that it is in is closed: requests
	// get 503 there. What nginx does not know, or finds wrong, is an error in any case.
	Lenient bool
	// FS is where files are read, by their paths without a leading slash; nil is the system's.
	FS fs.FS
	// Bound are the names of upstreams that are not in nginx.conf: those of bound handlers. Other names are those of hosts.
	Bound []string
	// DefaultPort is where servers without listen listen; 0 is 80 for root and 8000 for others, as in nginx.
	DefaultPort int
	// Resolver finds the addresses of names that listen gives, while Parse reads; nil is the system's, without IPv6 where that has none.
	Resolver Resolver
}

// Result is what was read.
type Result struct {
	Config  front.Config
	Process Process
	// Ignored was left out because it is not done here. Without Options.Lenient it is empty.
	Ignored []Message
	// Noted was accepted, though it means nothing here or something else; each says what.
	Noted []Message
	// Warnings are what may not be what was meant.
	Warnings []Message
}

// Process is what nginx.conf says of the process, rather than of requests.
type Process struct {
	// User and Group are whom it becomes once everything is open; "" stays, and without a Group it is the user's.
	User, Group string
	// PID is the file that the process's id is written to; "" is none.
	PID string
	// Workers is worker_processes, 0 for auto or nothing: how many threads run Go at a time.
	Workers int
	// Files is the number of files and connections that may be open, worker_rlimit_nofile; 0 leaves it as it is.
	Files uint64
	// Connections is worker_connections of each worker, 0 if it does not say.
	Connections int
	// Grace is how long requests may take to finish once the process is told to end; 0 is no bound.
	Grace time.Duration
	// ErrorLog is where the process says its errors; nil is the standard error.
	ErrorLog *front.ErrorLog
	// Listeners are the sockets that are to be opened for the Config's hosts. Where one is for all addresses of a port, those of
	// single addresses have none of their own, though hosts are told apart by them.
	Listeners []Listener
}

// Listener is a socket, and how connections to it are kept.
type Listener struct {
	// Listen is what it is opened with. Its certificates are those of the address's default host; those of others are in Config.Hosts.
	front.Listen
	// HeaderTimeout bounds how long a request's head may take. It is 60 s by default.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection is kept without a request, 75 s by default; 0 closes each one behind its first answer.
	IdleTimeout time.Duration
	// SendTimeout bounds the time in which a client takes nothing of a response that is no location's. It is 60 s by default.
	SendTimeout time.Duration
	// HeaderBytes bounds a request's head, 32 KB by default.
	HeaderBytes int64
}

// Message is something to be said about a place in the configuration. Parse's errors are Messages, too, joined.
type Message struct {
	File         string
	Line, Column int    // from 1; 0 is unknown. Columns are bytes
	Directive    string // "" if it is not about one
	Text         string
	// Refused is about what nginx does and is not done here: what Options.Lenient leaves out. To errors.Is it is ErrRefused.
	Refused bool

	number int // of the directive, in the order of reading
}

// ErrRefused is what each Message is that is Refused, among Parse's errors.
var ErrRefused = errors.New("nginx does it, and it is not done here")

// Is has errors.Is find out whether a Message is ErrRefused.
func (m Message) Is(target error) bool { return m.Refused && target == ErrRefused }

// Error is FILE:LINE: directive "NAME": TEXT.
func (m Message) Error() string {
	if m.Directive == "" {
		return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Text)
	}
	return fmt.Sprintf("%s:%d: directive %s: %s", m.File, m.Line, shown(m.Directive), m.Text)
}

// message is one about the directive.
func (d *directive) message(format string, args ...any) Message {
	return Message{
		File: d.pos.file, Line: d.pos.line, Column: d.pos.column, Directive: d.name, Text: fmt.Sprintf(format, args...), number: d.number,
	}
}

// Parse reads a configuration. It returns all errors that it finds, joined, in the order of the text.
func Parse(file string, o Options) (*Result, error) {
	r := newReport(o.Lenient)
	source := &source{fsys: o.FS}
	p := &parser{source: source, dir: filepath.Dir(file)}
	tree := p.file(file, 0, 0)
	if len(p.errs) > 0 && errors.Is(p.errs[0], errUnreadable) {
		return nil, p.errs[0]
	}
	for _, err := range p.errs {
		r.errs = append(r.errs, message(err))
	}
	c := &checker{table: newTable(), report: r}
	tree = c.check(tree, levelMain)
	result := &Result{}
	if len(p.errs) == 0 { // else what is missing may only not have been read
		t := translate(source, file, o, r, tree)
		result.Config, result.Process = t.config, t.process
	}
	result.Ignored, result.Noted, result.Warnings = sorted(r.ignored), sorted(r.noted), sorted(r.warnings)
	return result, r.err()
}

// translate translates a tree. What closes a block may be found out behind what is in the block, and then the tree is translated again.
func translate(source *source, file string, o Options, r *report, tree []*directive) *translator {
	for {
		before := r.closing
		t := newTranslator(source, file, o, r)
		if t.main(tree); r.closing == before {
			return t
		}
	}
}

// message is an error of the parser.
func message(err error) Message {
	var m Message
	if !errors.As(err, &m) {
		m.Text = err.Error()
	}
	return m
}

// report collects what there is to say. The same is said once of a directive, however often it is inherited.
type report struct {
	lenient                        bool
	errs, ignored, noted, warnings []Message
	said                           map[Message]bool
	closing                        int // directives that close what they are in
}

func newReport(lenient bool) *report { return &report{lenient: lenient, said: make(map[Message]bool)} }

func (r *report) add(list *[]Message, m Message) {
	if !r.said[m] {
		r.said[m] = true
		*list = append(*list, m)
	}
}

// errorf reports what is wrong.
func (r *report) errorf(d *directive, format string, args ...any) {
	r.add(&r.errs, d.message(format, args...))
}

// refuse reports what nginx does and is not done here. It may decide which clients get which response: if the reader is lenient the block
// that it is in is closed.
func (r *report) refuse(d *directive, format string, args ...any) {
	if r.lenient {
		format += " (requests get 503 where it would count)"
		if !d.closes {
			d.closes = true
			r.closing++
		}
	}
	r.omit(d, format, args...)
}

// omit reports what nginx does and is not done here, and decides nothing about clients: if the reader is lenient it is left out.
func (r *report) omit(d *directive, format string, args ...any) {
	m := d.message(format, args...)
	m.Refused = true
	if r.lenient {
		r.add(&r.ignored, m)
		return
	}
	r.add(&r.errs, m)
}

// note reports what is done otherwise.
func (r *report) note(d *directive, format string, args ...any) {
	r.add(&r.noted, d.message(format, args...))
}

// warn reports what may not be meant.
func (r *report) warn(d *directive, format string, args ...any) {
	r.add(&r.warnings, d.message(format, args...))
}

// ok reports whether nothing was wrong until now.
func (r *report) ok() bool { return len(r.errs) == 0 }

func (r *report) err() error {
	var errs []error
	for _, m := range sorted(r.errs) {
		errs = append(errs, m)
	}
	return errors.Join(errs...)
}

// sorted orders messages as the text is read.
func sorted(messages []Message) []Message {
	slices.SortStableFunc(messages, func(a, b Message) int { return cmp.Compare(a.number, b.number) })
	return messages
}
