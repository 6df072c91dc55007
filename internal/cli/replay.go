//go:build linux

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/load"
)

type replay struct {
	file  string // "-" is standard input
	speed float64
}

func (r *replay) complete(ctx context.Context, env Env, all *loadFlags) error {
	if r.file == "" {
		return nil
	}
	if !(r.speed > 0) {
		return fmt.Errorf("load: --speed %v: want a factor above 0", r.speed)
	}
	text, err := readInput(ctx, env, r.file)
	var skipped int
	if err == nil {
		all.plan.List, all.plan.Pace.Steps, skipped, err = parseAccessLog(text, r.speed)
	}
	if err != nil {
		return fmt.Errorf("load: --replay %q: %w", r.file, err)
	}
	if skipped > 0 {
		fmt.Fprintf(env.Stderr, "--replay leaves out %d lines, which have no GET or HEAD request\n", skipped)
	}
	all.plan.Threads = 1 // one thread sends the requests in the order of the log
	if !all.command.Flags().Changed("duration") && all.plan.Requests == 0 {
		all.plan.Requests = uint64(len(all.plan.List)) // all of them, also if this machine is late
	}
	return nil
}

// parseAccessLog returns the GET and HEAD requests of an access log in the common or the combined
// format, and their rate in each second. Times are divided by speed. It skips other lines: the log
// has no bodies.
func parseAccessLog(text string, speed float64) (all []load.Request, steps []load.Step, skipped int, err error) {
	line := regexp.MustCompile(`\[([^\]]+)\] "(GET|HEAD) (/\S*) HTTP/`)
	type logged struct {
		at int64 // Unix time
		load.Request
	}
	var requests []logged
	for l := range strings.Lines(text) {
		m := line.FindStringSubmatch(l)
		if m == nil {
			skipped++
			continue
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[1])
		if err != nil {
			skipped++
			continue
		}
		requests = append(requests, logged{at.Unix(), load.Request{Method: m[2], URL: m[3]}})
	}
	if len(requests) == 0 {
		return nil, nil, skipped, errors.New("want an access log in the common or the combined format, with GET or HEAD requests")
	}
	slices.SortStableFunc(requests, func(a, b logged) int { return cmp.Compare(a.at, b.at) })
	second := time.Duration(float64(time.Second) / speed)
	add := func(seconds int64, n int) {
		rate := float64(n) / second.Seconds()
		steps = append(steps, load.Step{From: rate, To: rate, For: time.Duration(seconds) * second})
	}
	for i := 0; i < len(requests); {
		next := i
		for next < len(requests) && requests[next].at == requests[i].at {
			all = append(all, requests[next].Request)
			next++
		}
		add(1, next-i)
		if next < len(requests) && requests[next].at > requests[i].at+1 {
			add(requests[next].at-requests[i].at-1, 0)
		}
		i = next
	}
	return all, steps, skipped, nil
}
