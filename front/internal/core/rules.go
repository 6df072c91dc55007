package core

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/mediatype"
	"github.com/tarehq/tare/front/internal/realip"
	"github.com/tarehq/tare/internal/safefile"
)

// Rules are Settings, compiled. All locations with the same Settings share them: the pointer to the
// Settings identifies them.
type Rules struct {
	Settings   *conf.Settings
	errorPages []errorPage

	MaxBody     int64 // maximum length of requests' bodies; negative: no limit
	bodyTimeout time.Duration
	Types       *mediatype.Table
	LinksFrom   Text // the part of a path in which disable_symlinks follows links
	errors      *errorlog.Log
	isDebugged  bool // errors has lines of the level debug
	realIP      *realip.Rules
	EarlyHints  []Text // one must be true to forward early hints; nil forwards all

	ofModules   []any // what modules have compiled, by slot; nil if no module does anything
	moduleSteps []Step
	logs        []func(x *Exchange) // of modules

	fields          []addHeader
	expires         *expires
	trailers        []addHeader
	byHead          []func(w *Writer) // of modules: change the header, and add stages by it alone
	byType          []BodyFilter      // of modules, in the order in which they change the head, and noChunks
	edited          []*mediatype.Set  // types of bodies that are edited
	ofAdded         []BodyFilter      // of byType: also for bodies that are added to others
	rate, rateAfter Text
	isObserved      bool // responses are changed or observed
	NeedsHeader     bool // a response's fields are read or replaced: heads do not pass as received

	sendTimeout time.Duration // limits the time in which the client receives nothing
}

// rules compiles Settings, or returns those that it has compiled before. Nil is the zero value.
func (c *Compiler) rules(s *conf.Settings) *Rules {
	if s == nil {
		s = &c.noSettings
	}
	return Shared(c, s, func() *Rules { return c.newRules(s) })
}

func (c *Compiler) newRules(s *conf.Settings) *Rules {
	c.checkWord("", "BodyFile", s.BodyFile, "on", "clean")
	c.checkWord("", "ModifiedSince", s.ModifiedSince, "before", "off")
	c.checkWord("", "Linger", s.Linger, "always", "off")
	c.checkWord("", "DisableSymlinks", s.Files.DisableSymlinks, "on", "if_not_owner")
	r := &Rules{Settings: s, sendTimeout: cmp.Or(s.SendTimeout, DefaultTimeout),
		MaxBody: cmp.Or(s.MaxBody, defaultMaxBody), bodyTimeout: cmp.Or(s.BodyTimeout, DefaultTimeout)}
	if s.KeepAliveRequests > 0 || s.KeepAliveTime > 0 {
		c.Plan.Needs |= needsConnection
	}
	r.Types = c.MediaTypes(&s.Files)
	if s.Files.DisableSymlinks != "" {
		r.LinksFrom = c.Text("disable_symlinks", trustedPart(&s.Files))
	}
	r.errorPages = c.errorPages(s.ErrorPages)
	c.effects(r)
	c.filters(r)
	r.errors = c.errorLog(s.ErrorLog)
	r.isDebugged = r.errors.IsEnabled(errorlog.LevelDebug)
	if s.BodyFile != "" && s.BodyDir != "" && c.Options.Explain == nil {
		c.Check("client_body_temp_path", c.bodyDir(s.BodyDir))
	}
	if s.EarlyHints != nil {
		r.EarlyHints = c.Texts("early_hints", s.EarlyHints)
	}
	r.realIP = Shared(c, realIPKey(fmt.Sprint(s.RealIP)), func() *realip.Rules { return realip.New(&s.RealIP) })
	return r
}

// realIPKey identifies a conf.RealIP by its fields: most locations have that of their host.
type realIPKey string

// bodyDir creates a folder for requests' bodies, in which the process can write. If the Config is
// only checked, it changes nothing, and another user may be the one that writes.
func (c *Compiler) bodyDir(dir string) error {
	if c.Options.InMemory {
		_, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			_, err = os.Stat(filepath.Dir(dir))
		}
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := safefile.CheckWritable(dir); err != nil {
		return fmt.Errorf("%w (make the serving user its owner)", err)
	}
	return nil
}

// trustedPart returns disable_symlinks from=. Usually it is $document_root, whose value is usually
// constant.
func trustedPart(s *conf.Files) conf.Text {
	if s.SymlinksFrom == "$document_root" {
		return cmp.Or(s.Alias, s.Root)
	}
	return s.SymlinksFrom
}

// checkWord checks a field of a Config whose values are some words, or empty.
func (c *Compiler) checkWord(what, field, value string, valid ...string) {
	if value != "" && !slices.Contains(valid, value) {
		c.Check(what, fmt.Errorf("invalid %s %q (want one of %q, or none)", field, value, valid))
	}
}

// checkConfig rejects a Config without hosts, and unknown words of log formats. Others are rejected
// where they are compiled.
func (c *Compiler) checkConfig() {
	if len(c.Config.Hosts) == 0 {
		c.Failf("no hosts: Config.Hosts needs at least one")
	}
	for _, f := range c.Config.LogFormats {
		c.checkWord(fmt.Sprintf("log format %q", f.Name), "Escape", f.Escape, "json", "none")
	}
}

// typesKey identifies a mediatype.Table within a Config.
type typesKey struct {
	table                      uintptr // address of the map, which does not change within a Config
	defaultType, charset, with string
	isDefault                  bool // with is nil
}

// MediaTypes compiles the types of a location. Equal ones are shared.
func (c *Compiler) MediaTypes(f *conf.Files) *mediatype.Table {
	table := f.Types
	if table == nil {
		table = c.Config.Types
	}
	key := typesKey{reflect.ValueOf(table).Pointer(), cmp.Or(f.DefaultType, "text/plain"), f.Charset,
		strings.Join(f.CharsetTypes, "\x00"), f.CharsetTypes == nil}
	return Shared(c, key, func() *mediatype.Table { return mediatype.New(f, table, key.defaultType) })
}
