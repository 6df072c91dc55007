package front

import (
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"
)

// addHeader is an AddHeader, compiled.
type addHeader struct {
	name    string // canonical
	value   text
	always  bool
	replace bool // the field of that name, instead of adding another one
}

// addHeaders compiles fields that are added to answers. As in nginx, Last-Modified and Etag replace those that there are, and
// remove them if they are empty. Content-Type replaces, too: nginx sends two, of which nobody knows which one counts.
func (c *compiler) addHeaders(all []AddHeader) ([]addHeader, error) {
	var out []addHeader
	for _, a := range all {
		name := http.CanonicalHeaderKey(a.Name)
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("add_header: invalid field name %q", a.Name)
		}
		if slices.Contains([]string{"Connection", "Content-Length", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"}, name) {
			return nil, fmt.Errorf("add_header: %s says where an answer ends, which is the server's to say", name)
		}
		value, err := c.text(a.Value)
		if err != nil {
			return nil, fmt.Errorf("add_header %s: %w", name, err)
		}
		if value.constant() && !httpguts.ValidHeaderFieldValue(string(a.Value)) {
			return nil, fmt.Errorf("add_header %s: invalid value %q", name, a.Value)
		}
		replace := slices.Contains([]string{"Last-Modified", "Etag", "Content-Type"}, name)
		out = append(out, addHeader{name: name, value: value, always: a.Always, replace: replace})
	}
	return out, nil
}

// add adds the field to an answer. What would end the field, or the header, is left out: variables hold what clients sent,
// decoded. nginx sends it.
func (a *addHeader) add(x *exchange, header http.Header) {
	value := a.value.of(x)
	switch {
	case !a.value.constant() && !httpguts.ValidHeaderFieldValue(value):
		x.errorf(levelWarn, "add_header %s: the value %q cannot be sent", a.name, value)
	case value == "" && a.replace && a.name != "Content-Type":
		delete(header, a.name)
	case value == "":
	case a.replace:
		header[a.name] = []string{value}
	default:
		header[a.name] = append(header[a.name][:len(header[a.name]):len(header[a.name])], value)
	}
}

// changesUsually reports whether answers with a status get fields that are not said to be there always.
func changesUsually(code int) bool {
	switch code {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusPartialContent,
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusNotModified,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}
