package report

import (
	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/profile"
	"github.com/tarehq/tare/internal/lab/sample"
)

// pageMethods returns the methods that the page's templates call.
func pageMethods() map[string][]any {
	return map[string][]any{
		"Command":           {(*sample.Run).Command},
		"Contents":          {(*Report).Contents},
		"DistinctEntrants":  {(*Report).DistinctEntrants},
		"Drift":             {(*Report).Drift},
		"Files":             {(*Report).Files},
		"HasPublishedLines": {(*Report).HasPublishedLines},
		"HasSourceLines":    {(*Report).HasSourceLines},
		"KernelSummary":     {(*Report).KernelSummary},
		"LatencyPlot":       {(*Report).LatencyPlot},
		"Problems":          {(*Report).Problems},
		"Reasons":           {(*Report).Reasons},
		"Remarks":           {(*Report).Remarks},
		"Sentences":         {(*Report).Sentences, (*sweep).Sentences},
		"ShapeChart":        {(*Report).ShapeChart},
		"SweepResults":      {(*Report).SweepResults},
		"Timeline":          {(*Report).Timeline},
		"TunedValue":        {(*Report).TunedValue},
		"Verdict":           {(*Report).Verdict},

		"DifferenceChart": {(*Table).DifferenceChart},
		"LatencyNote":     {(*Table).LatencyNote},
		"PartNames":       {(*analyze.Table).PartNames},
		"RatioChart":      {(*Table).RatioChart},
		"ScenarioNote":    {(*Table).ScenarioNote},
		"VariationNote":   {(*Table).VariationNote},
		"Warnings":        {(*Table).Warnings},
		"WeightChart":     {(*Table).WeightChart},

		"OtherConditions": {(*sweep).OtherConditions},
		"RatePlot":        {(*sweep).RatePlot},
		"Title":           {(*sweep).Title},
		"WeightPlot":      {(*sweep).WeightPlot},

		"AllCalls":   {(*analyze.UsageRow).AllCalls},
		"Contenders": {(*Reason).Contenders, (*Warning).Contenders},
		"HopName":    {(*analyze.HopRow).HopName},
		"More":       {(*profile.Change).More},
		"Part":       {(*analyze.Decomposition).Part},
		"Samples":    {(*profile.Profile).Samples},
		"ViewBox":    {(*chart).ViewBox, (*timeline).ViewBox},
		"Width":      {mark.Width},
	}
}
