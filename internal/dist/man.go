package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/cli"
)

// Manual pages are the commands' help texts, formatted as pages of section 1. cobra's own generator
// needs a Markdown converter, and joins the lines of tables.

type page struct {
	command []string // its names, without the program's
	short   string
	help    string
}

func (p page) name() string { return strings.Join(append([]string{productName}, p.command...), "-") }

func help(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	env := cli.Env{Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &errs, Dir: "/"}
	if code := cli.Run(ctx, env, args); code != 0 {
		return "", fmt.Errorf("%s %s: exit code %d: %s", productName, strings.Join(args, " "), code, errs.String())
	}
	return out.String(), nil
}

func manPages(ctx context.Context, r release) (map[string][]byte, error) {
	pages := make(map[string][]byte)
	waiting := []page{{short: summary}}
	for len(waiting) > 0 {
		p := waiting[0]
		var err error
		if p.help, err = help(ctx, append([]string{"help"}, p.command...)...); err != nil {
			return nil, err
		}
		sections := splitHelp(p.help)
		pages[p.name()+".1"] = p.format(sections, r)
		waiting = append(waiting[1:], p.subcommands(sections)...)
	}
	return pages, nil
}

// Headings of cobra's help texts. What comes before the first one describes the command.
const (
	headingUsage    = "Usage:"
	headingExamples = "Examples:"
	headingCommands = "Available Commands:"
	headingFlags    = "Flags:"
)

// splitHelp returns the lines of a help text by heading; those of the description have none.
func splitHelp(text string) map[string][]string {
	sections := make(map[string][]string)
	heading := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case slices.Contains([]string{headingUsage, headingExamples, headingCommands, headingFlags}, line):
			heading = line
		case strings.HasPrefix(line, `Use "`+productName): // where to find help
		default:
			sections[heading] = append(sections[heading], line)
		}
	}
	return sections
}

func (p page) subcommands(sections map[string][]string) (all []page) {
	for _, line := range sections[headingCommands] {
		name, short, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && name != "help" {
			all = append(all, page{command: append(slices.Clone(p.command), name), short: strings.TrimSpace(short)})
		}
	}
	return all
}

// format returns the page in the man macros (groff_man(7)).
func (p page) format(sections map[string][]string, r release) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"%s\" \"%s\" \"User Commands\"\n", roff(strings.ToUpper(p.name())),
		roff(r.time.Format(time.DateOnly)), roff(productName+" "+r.version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(p.name()), roff(p.short))
	b.WriteString(".SH SYNOPSIS\n")
	writeText(&b, unindent(sections[headingUsage]), true)
	b.WriteString(".SH DESCRIPTION\n")
	writeText(&b, sections[""], false)
	if lines := sections[headingFlags]; len(lines) > 0 {
		b.WriteString(".SH OPTIONS\n")
		writeFlags(&b, lines)
	}
	if lines := sections[headingExamples]; len(lines) > 0 {
		b.WriteString(".SH EXAMPLES\n")
		writeText(&b, unindent(lines), true)
	}
	also := []string{"\\fBnginx\\fR(8)"}
	if len(p.command) > 0 {
		parent := page{command: p.command[:len(p.command)-1]}
		also = append(also, "\\fB"+roff(parent.name())+"\\fR(1)")
	}
	for _, sub := range p.subcommands(sections) {
		also = append(also, "\\fB"+roff(sub.name())+"\\fR(1)")
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n.PP\n%s\n", strings.Join(also, ", "), roff(homepage))
	return b.Bytes()
}

// writeText writes lines: paragraphs, which are filled, and tables, which begin with spaces and are
// not. With verbatim nothing is filled.
func writeText(b *bytes.Buffer, lines []string, verbatim bool) {
	inTable, isFirst := false, true
	setTable := func(isTable bool) {
		if isTable && !inTable {
			b.WriteString(".nf\n")
		} else if !isTable && inTable {
			b.WriteString(".fi\n")
		}
		inTable = isTable
	}
	isBlank := false
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			isBlank = true
			continue
		}
		if isBlank && !isFirst {
			setTable(false)
			b.WriteString(".PP\n")
		}
		setTable(verbatim || strings.HasPrefix(line, " "))
		b.WriteString(roff(line) + "\n")
		isBlank, isFirst = false, false
	}
	setTable(false)
}

// writeFlags writes a list of flags, one paragraph each.
func writeFlags(b *bytes.Buffer, lines []string) {
	flag := regexp.MustCompile(`^ {2,6}((?:-\w, )?--\S.*?) {3,}(\S.*)$`)
	for _, line := range lines {
		m := flag.FindStringSubmatch(line)
		switch {
		case m != nil:
			fmt.Fprintf(b, ".TP\n\\fB%s\\fR\n%s\n", roff(m[1]), roff(m[2]))
		case strings.TrimSpace(line) != "": // the rest of a long text
			b.WriteString(roff(strings.TrimSpace(line)) + "\n")
		}
	}
}

func unindent(lines []string) []string {
	all := slices.Clone(lines)
	indent := ""
	for i, line := range all {
		indent = cmp.Or(indent, line[:len(line)-len(strings.TrimLeft(line, " "))])
		all[i] = strings.TrimPrefix(line, indent)
	}
	return all
}

// roff escapes a line: characters with a meaning, and a first character that would be a request.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\(rs`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`).Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
