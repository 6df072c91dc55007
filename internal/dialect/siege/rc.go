package siege

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/dialect"
)

// readRC parses a configuration file of siege: lines "name = value", and comments after #. Unknown
// names are variables for later lines.
func (s *settings) readRC(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("siege: read the file of -R: %w", err)
	}
	vars := make(variables)
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		name, value := cutSetting(strings.TrimSpace(line))
		if name == "" {
			continue
		}
		value = vars.expand(value)
		known, err := s.set(name, value)
		if err != nil {
			return fmt.Errorf("siege: %s:%d: %s: %w", file, number, name, err)
		}
		if !known {
			vars[name] = value
		}
	}
	return nil
}

// cutSetting splits a line at its first run of spaces, = and :.
func cutSetting(line string) (name, value string) {
	const separators = " \t=:"
	i := strings.IndexAny(line, separators)
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.TrimLeft(line[i:], separators)
}

// set applies a setting. Settings about output and about features that the emulation lacks, such as
// a cache, have no effect.
func (s *settings) set(name, value string) (known bool, err error) {
	if flag, ok := s.switches()[name]; ok {
		*flag = strings.HasPrefix(strings.ToLower(value), "true")
		return true, nil
	}
	if field, ok := s.texts()[name]; ok {
		*field = value
		return true, nil
	}
	switch name {
	case "concurrent":
		err = s.setUsers(value)
	case "limit":
		s.limit, err = dialect.Number(value, 1, 1<<20)
	case "reps":
		err = s.setReps(value)
	case "time":
		err = s.setTime(value)
	case "delay":
		err = s.setDelay(value)
	case "header":
		err = s.addHeader(value)
	case "timeout":
		var seconds int
		seconds, err = dialect.Number(value, 1, maxSeconds)
		s.timeout = time.Duration(seconds) * time.Second
	case "connection":
		s.keepAlive = strings.EqualFold(value, "keep-alive")
	case "protocol":
		s.http10 = !strings.EqualFold(value, "HTTP/1.1")
	case "login", "login-url", "proxy-host", "proxy-login", "ssl-cert", "ssl-key", "ssl-ciphers":
		err = fmt.Errorf("%s is not supported", name)
	default:
		return false, nil
	}
	return true, err
}

func (s *settings) switches() map[string]*bool {
	return map[string]*bool{
		"verbose": &s.verbose, "quiet": &s.quiet, "json_output": &s.json, "parser": &s.parser, "logging": &s.logging,
		"internet": &s.random, "benchmark": &s.benchmark, "follow-location": &s.follow,
	}
}

func (s *settings) texts() map[string]*string {
	return map[string]*string{
		"file": &s.file, "url": &s.url, "logfile": &s.logFile, "user-agent": &s.agent, "accept-encoding": &s.encoding,
	}
}

// variables maps names to values set in a file. Other names refer to the environment.
type variables map[string]string

// expand replaces $NAME, ${NAME} and $(NAME). A name ends at a closing bracket or a slash. Unset
// names expand to nothing.
func (v variables) expand(text string) string {
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(text, "$")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		after = strings.TrimLeft(after, "({")
		end := strings.IndexAny(after, ")}/")
		name, rest := after, ""
		if end >= 0 {
			name, rest = after[:end], strings.TrimLeft(after[end:end+1], ")}")+after[end+1:]
		}
		value, ok := v[name]
		if !ok {
			value = os.Getenv(name)
		}
		out.WriteString(value)
		text = rest
	}
}
