package core

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/front/internal/uri"
)

// action is a Step, compiled. ends reports that no further steps follow; the outcome Proceed ends
// only the steps of this phase.
type action func(x *Exchange) (out Outcome, ends bool)

// rewrite is the location's rewrite phase.
func (x *Exchange) rewrite() Outcome {
	if x.Loc.steps == nil {
		return Proceed
	}
	if out := x.runActions(x.Loc.steps); out != Proceed {
		return out
	}
	if x.needsLocation {
		return x.restart(atLocation)
	}
	return Proceed
}

func (x *Exchange) runActions(all []action) Outcome {
	for _, do := range all {
		out, ends := do(x)
		if x.RegexTimedOut && out != Responded {
			return x.Fail(http.StatusInternalServerError)
		}
		if ends {
			return out
		}
	}
	return Proceed
}

func (c *Compiler) steps(from []conf.Step) (all []action) {
	for _, s := range from {
		c.At(s.Position(), func() { all = append(all, c.explainStep(s, c.step(s))) })
	}
	return all
}

func (c *Compiler) step(s conf.Step) action {
	switch s := s.(type) {
	case conf.Set:
		return c.setStep(s)
	case conf.If:
		return c.ifStep(s)
	case conf.Rewrite:
		return c.rewriteStep(s)
	case conf.Return:
		return c.returnStep(s)
	case conf.Break:
		return func(x *Exchange) (Outcome, bool) {
			x.needsLocation = false
			return Proceed, true
		}
	}
	c.Failf("unknown step %T", s)
	return nil
}

func (c *Compiler) setStep(s conf.Set) action {
	set := c.Setting("set", s)
	hasCaptures := slices.ContainsFunc(set.Value.Parts, func(p part) bool { return p.capture })
	return func(x *Exchange) (Outcome, bool) {
		value := ""
		if hasCaptures && !x.needsLocation { // as in nginx, not after a rewrite
			value = set.Value.evalEscaped(x)
		} else {
			value = set.Value.Eval(x)
		}
		set.Assign(x, value)
		return Proceed, false
	}
}

// Setting is a Set, compiled.
type Setting struct {
	Value  Text
	Assign func(x *Exchange, value string)
}

// Setting compiles a Set of a directive.
func (c *Compiler) Setting(directive string, s conf.Set) (set Setting) {
	set.Value = c.Text(directive+" $"+s.Name, s.Value)
	name := strings.ToLower(s.Name)
	if set.Assign = c.Known[name].Set; set.Assign == nil {
		slot := c.Slots[name]
		set.Assign = func(x *Exchange, value string) { x.Set(slot, value) }
	}
	return set
}

func (c *Compiler) ifStep(s conf.If) action {
	holds := c.explainCondition(s, c.condition(s))
	then, ifLoc := c.steps(s.Then), c.ifLocation(s.Location)
	return func(x *Exchange) (Outcome, bool) {
		if !holds(x) || x.RegexTimedOut {
			return Proceed, false
		}
		if ifLoc != nil {
			x.Loc = ifLoc
		}
		for _, do := range then {
			if out, ends := do(x); ends || x.RegexTimedOut {
				return out, ends
			}
		}
		return Proceed, false
	}
}

// ifLocation compiles the location of an If; nil stays nil.
func (c *Compiler) ifLocation(from *conf.Location) *Location {
	if from == nil {
		return nil
	}
	loc := &Location{Path: from.Path}
	c.At(from.Pos, func() {
		if len(from.Locations) > 0 || len(from.Steps) > 0 || len(from.TryFiles) > 0 {
			c.Failf("the location of an if must not have locations, steps or try_files")
		}
		c.location(loc, from)
	})
	return loc
}

func (c *Compiler) condition(s conf.If) func(*Exchange) bool {
	left := c.Text("if", s.Left)
	op, not := strings.CutPrefix(s.Op, "!")
	var holds func(*Exchange) bool
	switch op {
	case "":
		if not {
			c.Failf("if: unknown operator %q", s.Op)
		}
		return left.IsTrue
	case "=":
		right := c.Text("if", s.Right)
		holds = func(x *Exchange) bool { return left.Eval(x) == right.Eval(x) }
	case "~", "~*":
		p := c.Pattern("if", string(s.Right), op == "~*")
		holds = func(x *Exchange) bool { return x.matches(p, left.Eval(x)) }
	case "method":
		methods := strings.Fields(string(s.Right))
		holds = func(x *Exchange) bool { return slices.Contains(methods, x.Method) }
	case "-f", "-d", "-e", "-x":
		kind := op[1]
		holds = func(x *Exchange) bool { return x.fileIs(left.Eval(x), kind) }
	default:
		c.Failf("if: unknown operator %q", s.Op)
	}
	if not {
		return func(x *Exchange) bool { return !holds(x) }
	}
	return holds
}

// matches matches a pattern of a step. As in nginx a failed match clears the captures, even those
// of the location.
func (x *Exchange) matches(p *Pattern, s string) bool {
	ok := p.Match(x, s)
	if !ok {
		x.Captures = captures{}
	}
	return ok
}

// fileIs reports whether a path is a file (f), a directory (d), anything (e), or executable (x). As
// in nginx, nothing exists behind a symbolic link that disable_symlinks forbids.
func (x *Exchange) fileIs(path string, kind byte) bool {
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return false
	}
	stat := os.Stat
	if links := x.Loc.Settings.Files.DisableSymlinks; links != "" {
		stat = func(path string) (os.FileInfo, error) { return files.Stat(path, links, x.Loc.LinksFrom.Eval(x)) }
	}
	info, err := stat(path)
	switch {
	case err != nil:
		return false
	case kind == 'f':
		return info.Mode().IsRegular()
	case kind == 'd':
		return info.IsDir()
	case kind == 'x':
		return info.Mode()&0o111 != 0
	}
	return true
}

type replacement struct {
	path, args Text
	hasArgs    bool // the new URI has a query
	keepArgs   bool // the request's query is appended
	status     int  // of a redirect, else 0
	flag       string
}

func (c *Compiler) rewriteStep(s conf.Rewrite) action {
	p, r := c.Pattern("rewrite", s.Pattern, false), c.replacement(s)
	return func(x *Exchange) (Outcome, bool) {
		if !x.matches(p, x.Path) {
			return Proceed, false
		}
		if r.status != 0 {
			return x.SendRedirect(r.status, r.location(x)), true
		}
		return r.apply(x)
	}
}

func (c *Compiler) replacement(s conf.Rewrite) *replacement {
	what, to := fmt.Sprintf("rewrite %q", s.Pattern), string(s.To)
	r := &replacement{keepArgs: true, flag: s.Flag}
	switch {
	case s.Flag == "permanent":
		r.status = http.StatusMovedPermanently
	case s.Flag == "redirect", strings.HasPrefix(to, "http://"), strings.HasPrefix(to, "https://"),
		strings.HasPrefix(to, "$scheme"):
		r.status = http.StatusFound
	case s.Flag != "" && s.Flag != "last" && s.Flag != "break":
		c.Failf("%s: invalid flag %q (must be last, break, redirect or permanent)", what, s.Flag)
	}
	if rest, ok := strings.CutSuffix(to, "?"); ok {
		to, r.keepArgs = rest, false
	}
	path, args, hasArgs := strings.Cut(to, "?")
	r.hasArgs = hasArgs
	if r.path, r.args = c.Text(what, conf.Text(path)), c.Text(what, conf.Text(args)); r.path.Empty() && r.status == 0 {
		c.Failf("%s: the new path is empty", what)
	}
	return r
}

// location returns the URL of a redirect. Captures in it are encoded.
func (r *replacement) location(x *Exchange) string {
	to := unescapeMost(r.path.evalEscaped(x))
	args := r.query(x)
	if !r.hasArgs && args == "" {
		return to
	}
	return to + "?" + args
}

// query returns the query of the new URI.
func (r *replacement) query(x *Exchange) string {
	args := r.args.evalEscaped(x) // none without hasArgs
	switch {
	case !r.keepArgs || x.Args == "":
		return args
	case r.hasArgs:
		return args + "&" + x.Args
	}
	return x.Args
}

// apply continues the exchange with the new path.
func (r *replacement) apply(x *Exchange) (Outcome, bool) {
	args := r.query(x)
	path, ok := uri.CleanPath(r.path.Eval(x), true)
	if !ok {
		return x.Fail(http.StatusInternalServerError), true
	}
	x.Path, x.Args, x.internal, x.URIChanged, x.PathRewritten = path, args, true, true, true
	x.needsLocation = r.flag != "break"
	return Proceed, r.flag == "last" || r.flag == "break"
}

// hasEncodedPath reports whether the client's path has encoded characters: captures are encoded in
// a query and by set then. As in nginx that is not known to subrequests.
func (x *Exchange) hasEncodedPath() bool {
	path, _, _ := strings.Cut(x.Request.RequestURI, "?")
	return x.Parent == nil && strings.ContainsAny(path, "%+")
}

// unescapeMost decodes characters that have no meaning of their own in paths and queries, as nginx
// does in redirects. It stops after a question mark, also a decoded one, because a query follows.
func unescapeMost(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' && i+2 < len(s) {
			if d, err := hex.DecodeString(s[i+1 : i+3]); err == nil && d[0] > '%' && d[0] < 0x7f {
				c = d[0]
				i += 2
			}
		}
		b = append(b, c)
		if c == '?' {
			return string(append(b, s[i+1:]...))
		}
	}
	return string(b)
}
