package core

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/wire/http1"
)

type addHeader struct {
	name    string // canonical
	value   Text
	always  bool
	replace bool // replaces the field of that name
}

// addHeaders compiles the fields that are added to responses. As in nginx Last-Modified and Etag
// replace the content's, and remove them if empty. Content-Type replaces, too: nginx sends two of
// them.
func (c *Compiler) addHeaders(all []conf.AddHeader) []addHeader {
	out := c.addedFields("add_header", all, func(name string) bool {
		return !slices.Contains([]string{"Connection", "Content-Length", "Keep-Alive", "Trailer", "Transfer-Encoding",
			"Upgrade"}, name)
	})
	for i := range out {
		out[i].replace = slices.Contains([]string{"Last-Modified", "Etag", "Content-Type"}, out[i].name)
	}
	return out
}

// addTrailers compiles the fields that are added to trailer sections. Those that frame the
// response, or that recipients must not take from there (RFC 9110, 6.5.1), are rejected.
func (c *Compiler) addTrailers(all []conf.AddHeader) []addHeader {
	return c.addedFields("add_trailer", all, http1.TrailerAllowed)
}

// addedFields compiles the fields of a directive, with names that it allows.
func (c *Compiler) addedFields(directive string, all []conf.AddHeader, allowed func(name string) bool) (
	out []addHeader) {
	for _, a := range all {
		name := http.CanonicalHeaderKey(a.Name)
		value := c.Text(directive+" "+name, a.Value)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			c.Failf("%s: invalid field name %q", directive, a.Name)
		case !allowed(name):
			c.Failf("%s: field %s cannot be set", directive, name)
		case value.Constant() && !httpguts.ValidHeaderFieldValue(string(a.Value)):
			c.Failf("%s: %s: invalid value %q", directive, name, a.Value)
		}
		out = append(out, addHeader{name: name, value: value, always: a.Always})
	}
	return out
}

func (a *addHeader) add(x *Exchange, header http.Header) {
	value := a.value.Eval(x)
	if !a.value.Constant() {
		value = x.CleanFieldValue(a.name, value)
	}
	switch {
	case value == "" && a.replace && a.name != "Content-Type":
		delete(header, a.name)
	case value == "":
	case a.replace:
		header[a.name] = []string{value}
	default:
		header[a.name] = append(slices.Clip(header[a.name]), value)
	}
}

// CleanFieldValue returns a value that a field can have, usually value itself.
func (x *Exchange) CleanFieldValue(name, value string) string {
	if httpguts.ValidHeaderFieldValue(value) {
		return value
	}
	return x.replaceControls(name, value)
}

// replaceControls replaces control characters by spaces: a line end with the spaces around it (RFC
// 9112, 5.2), and each other one. nginx sends them, although variables hold decoded input of
// clients, so that a line end starts another field. A continuation line, as in a map of the
// configuration, is not logged.
func (x *Exchange) replaceControls(name, value string) string {
	var b strings.Builder
	hasControls := false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\r' || c == '\n':
			for i+1 < len(value) && (value[i+1] == '\r' || value[i+1] == '\n') {
				i++
			}
			if i+1 < len(value) && value[i+1] != ' ' && value[i+1] != '\t' {
				hasControls = true
				b.WriteByte(' ')
			}
		case c < ' ' && c != '\t' || c == 0x7f:
			hasControls = true
			b.WriteByte(' ')
		default:
			b.WriteByte(c)
		}
	}
	if hasControls {
		x.Errorf(errorlog.LevelError, "field %s: control characters replaced by spaces in %q", name,
			errorlog.Truncate(value))
	}
	return strings.Trim(b.String(), " \t")
}

// getsAddedFields reports whether responses with a status get the fields of add_header without
// "always".
func getsAddedFields(code int) bool {
	switch code {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusPartialContent,
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusNotModified,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// SetField is a Field, compiled.
type SetField struct {
	Name  string
	Value Text
}

type expires struct {
	text     Text
	constant grammar.Expiry // if text is constant
	modified bool
}

func (c *Compiler) expires(e *conf.Expires) *expires {
	if e == nil {
		return nil
	}
	out := &expires{text: c.Text("expires", e.Text), modified: e.Modified}
	if out.text.Constant() {
		var err error
		out.constant, err = grammar.ParseExpiry(string(e.Text), e.Modified)
		c.Check("expires", err)
		if out.constant.Kind == grammar.ExpiryOff {
			return nil
		}
	}
	return out
}

func (e *expires) set(x *Exchange, header http.Header) {
	what := e.constant
	if !e.text.Constant() {
		var err error
		if what, err = grammar.ParseExpiry(e.text.Eval(x), e.modified); err != nil {
			return // as in nginx
		}
	}
	var at, control string
	switch now := time.Now(); what.Kind {
	case grammar.ExpiryOff:
		return
	case grammar.ExpiryEpoch:
		at, control = "Thu, 01 Jan 1970 00:00:01 GMT", "no-cache"
	case grammar.ExpiryMax:
		at, control = "Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000"
	default:
		until := expiresAt(what, now, e.modified, header)
		at, control = until.UTC().Format(http.TimeFormat), "no-cache"
		if age := until.Unix() - now.Unix(); age >= 0 && what.After >= 0 {
			control = "max-age=" + strconv.FormatInt(age, 10)
		}
	}
	header["Expires"], header["Cache-Control"] = []string{at}, []string{control}
}

func expiresAt(e grammar.Expiry, now time.Time, modified bool, header http.Header) time.Time {
	if e.Kind == grammar.ExpiryAt {
		y, m, d := now.Date()
		until := time.Date(y, m, d, 0, 0, int(e.After/time.Second), 0, now.Location())
		if !until.After(now) {
			until = time.Date(y, m, d+1, 0, 0, int(e.After/time.Second), 0, now.Location())
		}
		return until
	}
	if modified {
		if at, err := http.ParseTime(header.Get("Last-Modified")); err == nil {
			now = at
		}
	}
	return now.Add(e.After)
}

// addsTrailers reports whether a response with a status gets added trailer fields.
func (r *Rules) addsTrailers(w *Writer, code int) bool {
	if r.trailers == nil || r.Settings.NoChunks || !w.X.Request.ProtoAtLeast(1, 1) ||
		w.X.Request.Method == http.MethodHead || !message.BodyAllowed(code) {
		return false
	}
	return getsAddedFields(code) || slices.ContainsFunc(r.trailers, func(h addHeader) bool { return h.always })
}

// announceTrailers makes the server send a trailer section, whose values follow.
func (r *Rules) announceTrailers(header http.Header) {
	delete(header, "Content-Length")
	for i := range r.trailers {
		if name := http.TrailerPrefix + r.trailers[i].name; header[name] == nil {
			header[name] = []string{}
		}
	}
}

func (r *Rules) addTrailers(w *Writer) {
	header, isDefaultStatus := w.Header(), getsAddedFields(w.Status)
	for i := range r.trailers {
		field := &r.trailers[i]
		if !isDefaultStatus && !field.always {
			continue
		}
		if value := w.X.CleanFieldValue(field.name, field.value.Eval(w.X)); value != "" {
			name := http.TrailerPrefix + field.name
			header[name] = append(header[name], value)
		}
	}
}

// sentTrailer returns the values of a field in the trailer section, as far as that is known.
func (x *Exchange) sentTrailer(name string) []string {
	header := x.Response.Header()
	values := header[http.TrailerPrefix+name]
	if http1.HasToken(header["Trailer"], name) {
		values = slices.Concat(header[name], values)
	}
	return values
}
