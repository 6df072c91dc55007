package core

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/errorlog"
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
func (c *Compiler) addHeaders(all []conf.AddHeader) ([]addHeader, error) {
	var out []addHeader
	for _, a := range all {
		name := http.CanonicalHeaderKey(a.Name)
		if slices.Contains([]string{"Connection", "Content-Length", "Keep-Alive", "Trailer", "Transfer-Encoding",
			"Upgrade"}, name) {
			return nil, fmt.Errorf("add_header: %s frames the response, and cannot be set", name)
		}
		field, err := c.addedField("add_header", a)
		if err != nil {
			return nil, fmt.Errorf("add_header: %w", err)
		}
		field.replace = slices.Contains([]string{"Last-Modified", "Etag", "Content-Type"}, name)
		out = append(out, field)
	}
	return out, nil
}

// addTrailers compiles the fields that are added to trailer sections. Those that frame the
// response, or that recipients must not take from there (RFC 9110, 6.5.1), are rejected.
func (c *Compiler) addTrailers(all []conf.AddHeader) ([]addHeader, error) {
	var out []addHeader
	for _, a := range all {
		field, err := c.addedField("add_trailer", a)
		if err == nil && !http1.TrailerAllowed(field.name) {
			err = fmt.Errorf("%s must not be in a trailer section", field.name)
		}
		if err != nil {
			return nil, fmt.Errorf("add_trailer: %w", err)
		}
		out = append(out, field)
	}
	return out, nil
}

// addedField compiles an AddHeader of a directive.
func (c *Compiler) addedField(directive string, a conf.AddHeader) (addHeader, error) {
	field := addHeader{name: http.CanonicalHeaderKey(a.Name), always: a.Always}
	if !httpguts.ValidHeaderFieldName(field.name) {
		return field, fmt.Errorf("invalid field name %q", a.Name)
	}
	field.value = c.Text(directive+" "+field.name, a.Value)
	if field.value.Constant() && !httpguts.ValidHeaderFieldValue(string(a.Value)) {
		return field, fmt.Errorf("%s: invalid value %q", field.name, a.Value)
	}
	return field, nil
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
		header[a.name] = append(header[a.name][:len(header[a.name]):len(header[a.name])], value)
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
