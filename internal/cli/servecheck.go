package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/server"
)

// check checks the configuration, and prints it if the flags request that.
func (p *frontPlan) check(env Env) error {
	source, options := p.source(), p.options(env)
	var dump bytes.Buffer
	if p.flags.dump {
		source.Options.Report = func(name string, text []byte) { // as nginx -T does
			fmt.Fprintf(&dump, "# configuration file %s:\n%s\n", withoutEmptyNames(name), text)
		}
	}
	if p.flags.json {
		return p.checkJSON(env, source, options)
	}
	if err := server.Check(source, options); err != nil {
		return p.reportError(env.Stderr, err)
	}
	fmt.Fprintf(env.Stderr, "tare: configuration file %s test is successful\n", withoutEmptyNames(p.file))
	_, err := env.Stdout.Write(dump.Bytes())
	return err
}

// withoutEmptyNames returns a path without doubled slashes, which a prefix with a final slash
// leaves.
func withoutEmptyNames(path string) string { return strings.ReplaceAll(path, "//", "/") }

type checkResult struct {
	File     string              `json:"file"`
	Valid    bool                `json:"valid"`
	Errors   []nginxconf.Message `json:"errors"`
	Ignored  []nginxconf.Message `json:"ignored"`  // by --lenient
	Warnings []nginxconf.Message `json:"warnings"` // possible mistakes
	Notes    []nginxconf.Message `json:"notes"`    // directives without effect, or with a different one
}

type keptConfig struct {
	server.Source
	read *server.Config
}

// Read implements server.Source.
func (k *keptConfig) Read(bound []string) (*server.Config, error) {
	c, err := k.Source.Read(bound)
	if err == nil {
		k.read = c
	}
	return c, err
}

func (p *frontPlan) checkJSON(env Env, source server.File, options server.Options) error {
	options.Stderr = io.Discard // the messages are in the object
	kept := &keptConfig{Source: source}
	err := server.Check(kept, options)
	none := []nginxconf.Message{} // not null
	result := checkResult{p.file, err == nil, append(none, errorMessages(err)...), none, none, none}
	if c := kept.read; c != nil {
		result.Ignored, result.Warnings = append(none, c.Ignored...), append(none, c.Warnings...)
		result.Notes = append(none, c.Notes...)
	}
	if writeErr := writeJSON(env.Stdout, result); writeErr != nil {
		return writeErr
	}
	if invalid, ok := errors.AsType[*server.ConfigError](err); ok && !invalid.InOptions {
		return &exitError{code: exitUsage}
	}
	return err
}

func isJoin(err error, parts []error) bool {
	return errors.Join(parts...).Error() == err.Error()
}

func errorMessages(err error) []nginxconf.Message {
	if err == nil {
		return nil
	}
	if invalid, ok := err.(*server.ConfigError); ok { //nolint:errorlint // the error that it wraps follows
		err = invalid.Err
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if ok && isJoin(err, joined.Unwrap()) {
		var all []nginxconf.Message
		for _, err := range joined.Unwrap() {
			all = append(all, errorMessages(err)...)
		}
		return all
	}
	if m, ok := errors.AsType[nginxconf.Message](err); ok {
		return []nginxconf.Message{m}
	}
	place := regexp.MustCompile(`(?s)^(?:front: )?([^\n]+?):(\d+): (.*)$`) // file and line, if it begins with them
	if m := place.FindStringSubmatch(err.Error()); m != nil {
		if line, numErr := strconv.Atoi(m[2]); numErr == nil {
			column := 0
			var placed interface {
				error
				Position() string
			}
			if errors.As(err, &placed) {
				text, _ := strings.CutPrefix(placed.Position(), m[1]+":"+m[2]+":")
				column, _ = strconv.Atoi(text) // 0 if it is unknown
			}
			return []nginxconf.Message{{File: m[1], Line: line, Column: column, Text: m[3]}}
		}
	}
	return []nginxconf.Message{{Text: err.Error()}}
}
