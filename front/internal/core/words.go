package core

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
)

// checkWord checks a field of a Config whose values are some words, or empty.
func checkWord(field, value string, valid ...string) error {
	if value == "" || slices.Contains(valid, value) {
		return nil
	}
	return fmt.Errorf("invalid %s %q (want one of %q, or none)", field, value, valid)
}

// checkWords rejects unknown words, except those of locations, rewrites and Settings, which are
// rejected where they are compiled.
func checkWords(c *conf.Config) error {
	for _, f := range c.LogFormats {
		if err := checkWord("Escape", f.Escape, "json", "none"); err != nil {
			return fmt.Errorf("log format %q: %w", f.Name, err)
		}
	}
	for _, h := range c.Hosts {
		if h.ClientCerts == nil {
			continue
		}
		if err := checkWord("Mode", h.ClientCerts.Mode, "optional", "optional_no_ca"); err != nil {
			return places.At(h.Pos, fmt.Errorf("client certificates: %w", err))
		}
	}
	return nil
}

func checkSettings(s *conf.Settings) error {
	return cmp.Or(checkWord("BodyFile", s.BodyFile, "on", "clean"),
		checkWord("ModifiedSince", s.ModifiedSince, "before", "off"),
		checkWord("DisableSymlinks", s.Files.DisableSymlinks, "on", "if_not_owner"))
}
