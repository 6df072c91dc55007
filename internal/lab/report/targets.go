package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

func (a *Report) targetColumns() []document.Column[analyze.TargetResult] {
	type result = analyze.TargetResult
	text := func(name, head string, of func(result) string) document.Column[result] {
		return document.Text(name, of).For(head, of)
	}
	figure := func(name, head string, of func(result) float64) document.Column[result] {
		return document.Figure(name, of).For(head, func(r result) string { return metricText(r.Metric, of(r)) })
	}
	value := document.Interval("value", func(r result) stat.Interval { return r.Value })
	value[0] = value[0].For("ratio", func(r result) string {
		if r.Reference == "" {
			return ""
		}
		return valueText(&r, r.Value.Mid)
	})
	value[1] = value[1].For(confidence()+"\ninterval", func(r result) string {
		if !r.Value.Known() {
			return ""
		}
		return valueText(&r, r.Value.Lo) + "–" + valueText(&r, r.Value.Hi)
	})
	return slices.Concat([]document.Column[result]{
		text("row", "row", func(r result) string { return r.Row }),
		text("metric", "of", func(r result) string { return string(r.Metric) }),
		text("contender", "contender", func(r result) string { return r.Contender }),
		figure("figure", "", func(r result) float64 { return r.Of }),
		text("reference", "than", func(r result) string { return r.Reference }),
		figure("reference_figure", "", func(r result) float64 { return r.Than }),
	}, value, []document.Column[result]{
		text("required", "required", func(r result) string { return r.Require.String() }),
		text("aim", "aim", func(r result) string { return r.Aim.String() }),
		document.Count("starts", func(r result) int { return r.Starts }),
		text("standing", "", standingText),
	})
}

func standingText(r analyze.TargetResult) string {
	if r.Standing == analyze.Unlimited && r.Aim.IsSet() {
		return "aim " + strings.ToLower(r.AimStanding().String())
	}
	if r.Standing == analyze.Met && r.AimStanding() == analyze.Met {
		return "aim met"
	}
	return r.Standing.String()
}

func valueText(r *analyze.TargetResult, v float64) string {
	if r.Reference == "" {
		return metricText(r.Metric, v)
	}
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("%.3f", v)
}

// metricText formats a figure with its unit; "" is unknown.
func metricText(m sample.Metric, v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	switch {
	case m == sample.CPU || m == sample.ApplicationCPU || m == sample.FrontCPU:
		return fmt.Sprintf("%.2f µs", v)
	case m.Latency():
		return fmt.Sprintf("%.2f ms", 1e3*v)
	case m == sample.Resting:
		return fmt.Sprintf("%.2f %%", v)
	}
	return fmt.Sprintf("%.4g", v)
}

func (a *Report) targetTable() *document.Table {
	t := document.Rows(false, 3, a.targetColumns(), a.Targets, nil)
	for i := range t.Heads {
		t.Heads[i].Class = "narrowed"
	}
	return t
}

// required returns the number of required targets, and how many have each standing.
func (a *Report) required() (n int, count map[analyze.Standing]int) {
	count = make(map[analyze.Standing]int)
	for i := range a.Targets {
		if r := &a.Targets[i]; r.Require.IsSet() {
			n++
			count[r.Standing]++
		}
	}
	return n, count
}

// targetsVerdict returns how many required targets are met, and which are not.
func (a *Report) targetsVerdict() string {
	required, count := a.required()
	if required == 0 {
		return fmt.Sprintf("No figure has a required limit; %d were compared.", len(a.Targets))
	}
	text := fmt.Sprintf("%d of %d required targets are met", count[analyze.Met], required)
	for _, s := range []struct {
		analyze.Standing
		text string
	}{
		{analyze.Missed, "missed"}, {analyze.Open, "not shown to be met or missed"},
		{analyze.Unmeasured, "not measured"},
	} {
		if n := count[s.Standing]; n > 0 {
			text += fmt.Sprintf("; %d %s", n, s.text)
		}
	}
	return text + "."
}

// Missed returns a line for each required target that is missed or was not measured.
func (a *Report) Missed() (all []string) {
	for i := range a.Targets {
		r := &a.Targets[i]
		if !r.Require.IsSet() {
			continue
		}
		of := fmt.Sprintf("%s: %s of %s", r.Row, r.Metric, r.Contender)
		if r.Reference != "" {
			of += " to " + r.Reference
		}
		switch r.Standing {
		case analyze.Missed:
			all = append(all, fmt.Sprintf("%s: %s (%s to %s), required %s: missed by %.1f %%", of,
				valueText(r, r.Value.Mid), valueText(r, r.Value.Lo), valueText(r, r.Value.Hi), r.Require,
				100*math.Abs(r.Value.Mid/r.Require.Value-1)))
		case analyze.Unmeasured:
			all = append(all, of+": not measured")
		}
	}
	return all
}

// failedRows returns a line for the first failure of each contender in each row of targets.
func (a *Report) failedRows() (all []string) {
	if len(a.Targets) == 0 {
		return nil
	}
	named := make(map[[2]string]bool)
	for i := range a.Records {
		r := &a.Records[i]
		if key := [2]string{r.Scenario.Name, r.Contender}; r.Failure != "" && !named[key] {
			named[key] = true
			all = append(all, fmt.Sprintf("FAILED: %s of %s: %s", r.Scenario.Name, a.TitleOf(r.Contender), r.Failure))
		}
	}
	return all
}
