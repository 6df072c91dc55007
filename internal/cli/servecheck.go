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
	File     string         `json:"file"`
	Valid    bool           `json:"valid"`
	Errors   []checkMessage `json:"errors"`
	Ignored  []checkMessage `json:"ignored"`  // by --lenient
	Warnings []checkMessage `json:"warnings"` // possible mistakes
	Notes    []checkMessage `json:"notes"`    // directives without effect, or with a different one
}

// checkMessage is a message of a check. File is empty if the message concerns none; Line and Column
// are 0 if they are unknown.
type checkMessage struct {
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Column    int    `json:"column,omitempty"`
	Directive string `json:"directive,omitempty"`
	Text      string `json:"text"`
	// Unsupported: nginx supports the directive and tare does not; --lenient would ignore it.
	Unsupported bool `json:"unsupported,omitempty"`
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
	result := checkResult{File: p.file, Valid: err == nil, Errors: errorMessages(err), Ignored: messages(nil),
		Warnings: messages(nil), Notes: messages(nil)}
	if c := kept.read; c != nil {
		result.Ignored, result.Warnings = messages(c.Ignored), messages(c.Warnings)
		result.Notes = messages(c.Notes)
	}
	if writeErr := writeJSON(env.Stdout, result); writeErr != nil {
		return writeErr
	}
	if invalid, ok := errors.AsType[*server.ConfigError](err); ok && !invalid.InOptions {
		return &exitError{code: exitUsage}
	}
	return err
}

func messages(from []nginxconf.Message) []checkMessage {
	all := []checkMessage{} // not null
	for _, m := range from {
		all = append(all, checkMessage{m.File, m.Line, m.Column, m.Directive, m.Text, m.Unsupported})
	}
	return all
}

func isJoin(err error, parts []error) bool {
	return errors.Join(parts...).Error() == err.Error()
}

func errorMessages(err error) []checkMessage {
	if err == nil {
		return []checkMessage{}
	}
	if invalid, ok := err.(*server.ConfigError); ok { //nolint:errorlint // the error that it wraps follows
		err = invalid.Err
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if ok && isJoin(err, joined.Unwrap()) {
		var all []checkMessage
		for _, err := range joined.Unwrap() {
			all = append(all, errorMessages(err)...)
		}
		return all
	}
	if m, ok := errors.AsType[nginxconf.Message](err); ok {
		return messages([]nginxconf.Message{m})
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
			return []checkMessage{{File: m[1], Line: line, Column: column, Text: m[3]}}
		}
	}
	return []checkMessage{{Text: err.Error()}}
}
