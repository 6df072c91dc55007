package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Assignment is a setting and its value in a write-up.
type Assignment struct{ Name, Value string }

// Parse reads settings in the format of sysctl.conf: "name = value" lines, empty lines and
// comments. The error begins with the number of the line.
func Parse(text string) (all []Assignment, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		a := Assignment{strings.TrimSpace(name), clean(value)}
		if _, err := (Tree{}).file(a.Name); !ok || err != nil || a.Value == "" {
			return nil, fmt.Errorf("line %d: %q: want a setting and its value, such as %q", n, line,
				"net.core.somaxconn = 65535")
		}
		if slices.ContainsFunc(all, func(b Assignment) bool { return b.Name == a.Name }) {
			return nil, fmt.Errorf("line %d: duplicate setting %q", n, a.Name)
		}
		all = append(all, a)
	}
	return all, nil
}

// setting is a kernel setting that affects servers which are measured over loopback.
type setting struct {
	name  string
	each  uint64 // the highest need of one connection; 0 if unknown
	exact string // the value that has the same effect as the write-up's; others are limits
}

// known returns the settings that a run can notice. Others, such as buffers for slow networks, have
// no effect over loopback.
func known() []setting {
	return []setting{
		{name: "net.core.somaxconn", each: 1}, // if the backlog is full, a client tries again after a second
		{name: "net.core.netdev_max_backlog", each: 4},
		{name: portRange},
		{name: "net.ipv4.tcp_max_tw_buckets"}, // without keep-alive, very many connections are in TIME_WAIT
		{name: "fs.file-max", each: 4},
		{name: "fs.nr_open", each: 3},
		{name: "net.ipv4.tcp_no_metrics_save", exact: "1"}, // a contender's connections do not affect the next one's
		{name: "net.ipv4.tcp_tw_reuse", exact: "2"},        // 2 allows it on loopback
	}
}

// portRange is the setting with two numbers: a run may need a larger range. Servers that are
// measured listen on ports below lowestPort, which clients must not use.
const (
	portRange  = "net.ipv4.ip_local_port_range"
	lowestPort = 16384
)

// Names returns the names of the settings that a run can notice.
func Names() (names []string) {
	for _, s := range known() {
		names = append(names, s.name)
	}
	return names
}

// Changes returns the changes from the tree's settings to a write-up's that a run can notice. No
// limit gets lower. connections is the highest number of connections of the run.
func Changes(t Tree, theirs []Assignment, connections int) (all []Change) {
	for _, s := range known() {
		i := slices.IndexFunc(theirs, func(a Assignment) bool { return a.Name == s.name })
		if i < 0 {
			continue
		}
		here, err := t.Read(s.name) // containers do not see all settings of the machine
		if to := s.better(here, theirs[i].Value, uint64(connections)); err == nil && to != here {
			all = append(all, Change{t, s.name, here, to})
		}
	}
	return all
}

// better returns the value that a run should have: here if that is as good as theirs.
func (s *setting) better(here, theirs string, connections uint64) string {
	if s.exact != "" {
		if here == s.exact {
			return here
		}
		return theirs
	}
	a, b := numbers(theirs), numbers(here)
	switch {
	case s.name == portRange && len(a) == 2 && len(b) == 2:
		return fmt.Sprintf("%d %d", min(b[0], max(a[0], lowestPort)), max(a[1], b[1]))
	case s.name == portRange || len(a) != 1 || len(b) != 1 || b[0] >= a[0] || s.each > 0 && b[0] >= s.each*connections:
		return here
	}
	return theirs
}

// numbers reads the numbers of a value; nil if it has others.
func numbers(value string) (all []uint64) {
	for _, word := range strings.Fields(value) {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return all
}
