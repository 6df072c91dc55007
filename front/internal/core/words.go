package core

import (
	"fmt"
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
)

// word is a field of a Config whose values are some words, or empty.
type word struct {
	field, value string
	valid        []string
}

func (w word) check() error {
	if w.value == "" || slices.Contains(w.valid, w.value) {
		return nil
	}
	return fmt.Errorf("invalid %s %q (want one of %q, or none)", w.field, w.value, w.valid)
}

// checkWords rejects unknown words, except those of locations, rewrites and Settings, which are
// rejected where they are compiled.
func checkWords(c *conf.Config) error {
	for _, f := range c.LogFormats {
		if err := (word{"Escape", f.Escape, []string{"json", "none"}}).check(); err != nil {
			return fmt.Errorf("log format %q: %w", f.Name, err)
		}
	}
	for _, h := range c.Hosts {
		if h.ClientCerts == nil {
			continue
		}
		if err := (word{"Mode", h.ClientCerts.Mode, []string{"optional", "optional_no_ca"}}).check(); err != nil {
			return places.At(h.Pos, fmt.Errorf("client certificates: %w", err))
		}
	}
	return nil
}

func checkSettings(s *conf.Settings) error {
	for _, w := range [...]word{
		{"BodyFile", s.BodyFile, []string{"on", "clean"}},
		{"ModifiedSince", s.ModifiedSince, []string{"before", "off"}},
		{"DisableSymlinks", s.Files.DisableSymlinks, []string{"on", "if_not_owner"}},
	} {
		if err := w.check(); err != nil {
			return err
		}
	}
	return nil
}
