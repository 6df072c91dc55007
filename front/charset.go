package front

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
)

// recoding is what a location does about charsets, unless it only adds a constant one: that is in
// mediaTypes.
type recoding struct {
	to, from  text
	overrides bool
	types     []string
	tables    map[[2]string]*recodeTable
}

// recodes reports whether a location needs a recoding.
func (c *compiler) recodes(s *conf.Settings) bool {
	return s.SourceCharset != "" || s.OverrideCharset || grammar.HasVariables(s.Files.Charset) ||
		len(c.config.CharsetMaps) > 0
}

// recoding compiles the charsets of a location; nil converts nothing.
func (c *compiler) recoding(s *conf.Settings) (*recoding, error) {
	if !c.recodes(s) {
		return nil, nil
	}
	out := &recoding{overrides: s.OverrideCharset, types: charsetTypes(&s.Files), tables: c.recodeTables}
	var err error
	if out.to, err = c.text(s.Files.Charset); err != nil {
		return nil, fmt.Errorf("charset: %w", err)
	}
	if out.from, err = c.text(s.SourceCharset); err != nil {
		return nil, fmt.Errorf("source_charset: %w", err)
	}
	return out, nil
}

// compileCharsets makes the tables of all maps, in both directions.
func (c *compiler) compileCharsets() error {
	c.recodeTables = make(map[[2]string]*recodeTable)
	for from, maps := range c.config.CharsetMaps {
		for to, rows := range maps {
			if err := c.compileCharset(strings.ToLower(from), strings.ToLower(to), rows); err != nil {
				return fmt.Errorf("charset_map %s %s: %w", from, to, err)
			}
		}
	}
	return nil
}

func (c *compiler) compileCharset(from, to string, rows map[byte]string) error {
	if from == to || from == utf8Name || c.recodeTables[[2]string{from, to}] != nil {
		return errors.New("want two different charsets once, and utf-8 as the second one")
	}
	there, back, err := newRecodeTable(rows, to == utf8Name)
	c.recodeTables[[2]string{from, to}], c.recodeTables[[2]string{to, from}] = &there, &back
	return err
}

const utf8Name = "utf-8"

// foundCharset is what becomes of a response.
type foundCharset struct {
	media string       // the type without its charset
	to    string       // the charset that it gets; "" keeps the type
	table *recodeTable // nil converts nothing
	err   error
}

// contentType returns the type with its charset.
func (f *foundCharset) contentType() string { return f.media + "; charset=" + f.to }

// find finds the charset of a response with a type, as nginx does.
func (r *recoding) find(x *exchange, contentType string) (f foundCharset) {
	media, from := cutCharset(contentType)
	f.media = media
	if media == "" {
		return f
	}
	to := x.accelCharset
	if to == "" {
		if from != "" && !r.overrides || from == "" && !containsType(r.types, media) {
			return f
		}
		to = r.to.eval(x)
	}
	if strings.EqualFold(to, "off") || to == "" {
		return f
	}
	if !validToken(to) {
		f.err = fmt.Errorf("invalid charset %q", truncateLogged(to))
		return f
	}
	if from == "" {
		from = r.from.eval(x)
	}
	if from != "" && !strings.EqualFold(from, "off") && !strings.EqualFold(from, to) {
		f.table = r.tables[[2]string{strings.ToLower(from), strings.ToLower(to)}]
		if f.table == nil {
			f.err = fmt.Errorf("no charset_map between the charsets %q and %q", truncateLogged(from), to)
			return f
		}
	}
	f.to = to
	return f
}

// cutCharset splits a type into what precedes its charset, and the charset.
func cutCharset(contentType string) (media, charset string) {
	const parameter = "charset="
	for at := 0; ; {
		i := strings.IndexByte(contentType[at:], ';')
		if i < 0 {
			return contentType, ""
		}
		at += i
		rest := strings.TrimLeft(contentType[at:], "; ")
		if len(rest) >= len(parameter) && strings.EqualFold(rest[:len(parameter)], parameter) {
			return contentType[:at], strings.Trim(rest[len(parameter):], `"`)
		}
		at = len(contentType) - len(rest)
	}
}

// containsType reports whether a list has a media type.
func containsType(types []string, media string) bool {
	media, _, _ = strings.Cut(media, ";")
	return slices.Contains(types, "*") || slices.Contains(types, strings.ToLower(strings.TrimSpace(media)))
}

// start sets the charset of a response, and starts to convert its body.
func (r *recoding) start(w *writer) {
	header := w.Header()
	if len(header["Content-Type"]) != 1 {
		return
	}
	contentType := header["Content-Type"][0]
	if isMultipart(w.status, contentType) {
		if w.x.accelCharset != "" || !r.to.empty() {
			delete(header, "Content-Length") // the types of the parts become longer
			isEncoded := header.Get("Content-Encoding") != ""
			w.stages[charsetStage] = &recoder{w: w, parts: &recodedParts{rules: r, isEncoded: isEncoded}}
		}
		return
	}
	f := r.find(w.x, contentType)
	switch {
	case f.err != nil:
		w.x.errorf(levelError, "%v", f.err)
		return
	case f.to == "", f.table != nil && header.Get("Content-Encoding") != "",
		f.table != nil && !f.table.keepsLength() && w.status == http.StatusPartialContent:
		return
	}
	if w.status != http.StatusMovedPermanently && w.status != http.StatusFound {
		header["Content-Type"] = []string{f.contentType()}
	}
	if f.table == nil {
		return
	}
	if !f.table.keepsLength() {
		delete(header, "Content-Length")
		delete(header, "Accept-Ranges")
	}
	w.stages[charsetStage] = &recoder{w: w, table: f.table}
}

// changesLength reports whether the conversion of a response with a type changes its length.
func (r *recoding) changesLength(x *exchange, contentType string) bool {
	f := r.find(x, contentType)
	return f.table != nil && !f.table.keepsLength()
}
