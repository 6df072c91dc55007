package nginxconf

import (
	"cmp"
	"context"
	_ "embed" // for directives.txt
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

//go:embed directives.txt
var tableText string

// Options are the settings of Parse that are not in nginx.conf. The zero value is valid.
type Options struct {
	// Prefix is the folder of relative paths of files, folders and logs, nginx's -p. "" is the
	// folder of the main configuration file, with a warning for paths that lead nowhere. As in
	// nginx, paths of includes, certificates and password files are always relative to that folder.
	Prefix string
	// Lenient leaves out unsupported directives and lists them in Result.Ignored; otherwise they
	// are errors. A directive that may decide which clients get which response closes its location,
	// server or http block: requests get 503 there. Variables that only such directives define are
	// empty. What nginx itself would reject is always an error.
	Lenient bool
	// FS is the file system for reading files, by their paths without a leading slash; nil is the
	// system's.
	FS fs.FS
	// Report, if it is not nil, receives each file of the configuration, in the order in which they
	// are read. A file that is included several times is reported once.
	Report func(name string, text []byte)
	// Bound are the names of bound handlers, which count as upstreams. Other names that no upstream
	// block defines are host names.
	Bound []string
	// HTTP3 allows listen with quic, and http3 on: the program can serve HTTP/3.
	HTTP3 bool
	// Tracing allows otel_exporter: the program can send spans to a collector.
	Tracing bool
	// DefaultPort is the port of servers without listen; as in nginx, 0 is 80 for root and 8000 for
	// other users.
	DefaultPort int
	// LookupNetIP resolves the names in listen during Parse, as the method of net.Resolver does. Nil
	// is the system's resolver, without IPv6 addresses on machines without IPv6.
	LookupNetIP func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Result is the result of Parse.
type Result struct {
	Config  conf.Config
	Process Process
	// Ignored lists what was left out because it is not supported. Without Options.Lenient it is
	// empty.
	Ignored []Message
	// Notes lists accepted directives that have no effect or a different one, with an explanation.
	Notes []Message
	// Warnings lists possible mistakes.
	Warnings []Message
}

// Process contains the settings of nginx.conf that concern the process, not requests.
type Process struct {
	// User and Group are the process's identity after everything is open. An empty User means no
	// change; an empty Group is the user's group.
	User, Group string
	// PID is the path of the file for the process ID; "" means no file.
	PID string
	// Workers is worker_processes: the number of threads that run Go at the same time; 0 for auto
	// or no directive.
	Workers int
	// Files is worker_rlimit_nofile, the maximum number of open files and connections; 0 means no
	// change.
	Files uint64
	// SpanExporter sends spans to a collector; nil sends none.
	SpanExporter *conf.SpanExporter
	// Listeners are the addresses of the Config's hosts. If one is for all addresses of a port,
	// single addresses of that port and IP version have no socket of their own. Their settings still
	// apply to the connections that clients open to them.
	Listeners []Listener
}

// Listener is an address, and how to treat connections to it.
type Listener struct {
	// Listen describes the address and its socket. Its certificates are those of the default host;
	// Config.Hosts contains those of others.
	conf.Listen
	// HeaderTimeout limits the time for reading a request's head; the default is 60 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long an idle connection stays open; the default is 75 s. 0 closes each
	// connection after its first response.
	IdleTimeout time.Duration
	// SendTimeout limits the time in which a client accepts no byte of a response, if the response
	// belongs to no location; the default is 60 s.
	SendTimeout time.Duration
	// HeaderBytes bounds a request's head, 32 KB by default.
	HeaderBytes int64
	// HeaderFieldBytes bounds each line of a head, or each name and value over HTTP/2 and HTTP/3; the
	// default is 8 KB.
	HeaderFieldBytes int64
	// HTTP2Streams limits the concurrent streams of an HTTP/2 connection; 0 is the default of the
	// server.
	HTTP2Streams int
	// HTTP2Window is how many bytes of a body a client of HTTP/2 may send before they are read; 0
	// is the default of the server.
	HTTP2Window int64

	// HTTP3Retry, at an address that starts with quic:, makes each client prove that it receives
	// packets at its address (RFC 9000, 8.1.2).
	HTTP3Retry bool
	// HTTP3Streams limits the concurrent requests of an HTTP/3 connection; the default is 128.
	HTTP3Streams int
	// HTTP3Window is how many bytes of a body a client of HTTP/3 may send before they are read; the
	// default is 64 KB.
	HTTP3Window int64
}

// NewListener returns a Listener with nginx's defaults.
func NewListener(of conf.Listen) Listener {
	l := Listener{Listen: of, HeaderTimeout: 60 * time.Second, IdleTimeout: 75 * time.Second,
		SendTimeout: 60 * time.Second, HeaderBytes: 4 * 8 << 10, HeaderFieldBytes: 8 << 10, HTTP2Streams: 128}
	if grammar.IsQUIC(l.Addr) {
		l.HTTP3Streams, l.HTTP3Window = 128, 64<<10
	}
	return l
}

// Message is an error or a remark about a place in the configuration. Parse returns its errors as
// joined Messages.
type Message struct {
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`      // from 1; 0 is unknown
	Column    int    `json:"column,omitempty"`    // likewise, in bytes
	Directive string `json:"directive,omitempty"` // "" if the message is not about a directive
	Text      string `json:"text"`
	// Unsupported reports that nginx supports the directive and this package does not:
	// Options.Lenient leaves it out. errors.Is(m, errors.ErrUnsupported) is then true.
	Unsupported bool `json:"unsupported,omitempty"`

	number int // of the directive, in the order of reading
}

// Is makes errors.ErrUnsupported match the Messages among Parse's errors that are Unsupported.
func (m Message) Is(target error) bool { return m.Unsupported && target == errors.ErrUnsupported }

// Error returns FILE:LINE: directive "NAME": TEXT.
func (m Message) Error() string {
	if m.Directive == "" {
		return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Text)
	}
	return fmt.Sprintf("%s:%d: directive %s: %s", m.File, m.Line, grammar.Quote(m.Directive), m.Text)
}

func newMessage(err *syntax.Error) Message {
	return Message{
		File: err.Pos.File, Line: err.Pos.Line, Column: err.Pos.Column, Directive: err.Directive, Text: err.Text,
		number: err.Number,
	}
}

// Parse parses a configuration. It returns all errors that it finds, joined, in the order of the
// text.
func Parse(file string, o Options) (*Result, error) {
	r := &report{lenient: o.Lenient, seen: make(map[Message]bool), closing: make(map[*syntax.Directive]bool)}
	source := &syntax.Source{FS: o.FS}
	tree, errs, err := syntax.Parse(file, source, o.Report)
	if err != nil {
		return nil, err
	}
	for _, err := range errs {
		r.error(err)
	}
	c := &syntax.Checker{Table: syntax.ParseTable(tableText), Report: r.error, Keep: r.keeps}
	tree = c.Check(tree, levelMain)
	result := &Result{}
	if len(errs) == 0 { // otherwise a name may only seem to be missing
		t := translate(source, file, o, r, tree)
		result.Config, result.Process = t.config, t.process
	}
	result.Ignored, result.Notes, result.Warnings = sorted(r.ignored), sorted(r.remarks), sorted(r.warnings)
	return result, r.err()
}

// translate translates a tree. It repeats the translation if a directive closes a block whose first
// part has already been translated.
func translate(source *syntax.Source, file string, o Options, r *report, tree []*syntax.Directive) *translator {
	for {
		before := len(r.closing)
		t := newTranslator(source, file, o, r)
		if t.main(tree); len(r.closing) == before {
			return t
		}
	}
}

// report collects messages. It drops duplicates, so that an inherited directive is reported once.
type report struct {
	lenient                          bool
	errs, ignored, remarks, warnings []Message
	seen                             map[Message]bool
	dropped                          []grammar.Missing
	closing                          map[*syntax.Directive]bool // those that were left out, and close what they are in
}

func (r *report) add(list *[]Message, m Message) {
	if !r.seen[m] {
		r.seen[m] = true
		*list = append(*list, m)
	}
}

func (r *report) messages() int {
	return len(r.errs) + len(r.ignored) + len(r.remarks) + len(r.warnings)
}

func (r *report) errorf(d *syntax.Directive, format string, args ...any) {
	r.error(d.Errorf(format, args...))
}

func (r *report) error(err *syntax.Error) { r.add(&r.errs, newMessage(err)) }

// reject reports an unsupported directive that may decide which clients get which response. A
// lenient parser closes the block that contains it.
func (r *report) reject(d *syntax.Directive, format string, args ...any) {
	if r.lenient {
		format += " (requests that it applies to get 503)"
		r.closing[d] = true
	}
	r.omit(d, format, args...)
}

// omit reports an unsupported directive that does not affect clients. A lenient parser leaves it
// out.
func (r *report) omit(d *syntax.Directive, format string, args ...any) {
	m := newMessage(d.Errorf(format, args...))
	m.Unsupported = true
	if r.lenient {
		r.add(&r.ignored, m)
		return
	}
	r.add(&r.errs, m)
}

// remark reports a directive that has no effect or a different one.
func (r *report) remark(d *syntax.Directive, format string, args ...any) {
	r.add(&r.remarks, newMessage(d.Errorf(format, args...)))
}

func (r *report) warn(d *syntax.Directive, format string, args ...any) {
	r.add(&r.warnings, newMessage(d.Errorf(format, args...)))
}

func (r *report) ok() bool { return len(r.errs) == 0 }

func (r *report) err() error {
	var errs []error
	for _, m := range sorted(r.errs) {
		errs = append(errs, m)
	}
	return errors.Join(errs...)
}

// sorted sorts messages by their position in the text.
func sorted(messages []Message) []Message {
	slices.SortStableFunc(messages, func(a, b Message) int { return cmp.Compare(a.number, b.number) })
	return messages
}
