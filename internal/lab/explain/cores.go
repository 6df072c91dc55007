package explain

import "fmt"

const (
	// oneCoreFrom and oneCoreTo bound the demand of a program in which one thread at a time can
	// work. Work outside of its lock comes on top.
	oneCoreFrom = 0.7
	oneCoreTo   = 1.75
	// wider is the factor by which the control's demand must be higher: it shows that there was
	// more work.
	wider = 1.2
	// slower is the share of the control's rate that the contender must not reach.
	slower = 0.9

	// extraWaits is the number of additional waits per request that shows that threads wait for
	// each other.
	extraWaits = 0.05
	// switchUs is about what a context switch costs, with the cache contents that it loses.
	switchUs = 3
	// crowdedDemand is the demand per core from which threads hinder each other.
	crowdedDemand = 4
)

func oneCore(c *Case) Finding {
	ready, control := c.Of.Demand, c.Control.Demand
	if c.Of.Cores < 2 || ready < oneCoreFrom || ready > oneCoreTo || control < wider*ready ||
		c.Of.PerSecond > slower*c.Control.PerSecond {
		return Finding{}
	}
	how := ""
	if n := c.more(func(e *Evidence) float64 {
		return e.sum(func(p *Part) float64 { return p.Voluntary })
	}); n >= extraWaits {
		how = fmt.Sprintf("; they wait for each other %s more times per request", count(n))
	}
	if c.Of.Interpreter != "" {
		how += fmt.Sprintf("; %s runs one thread per process at a time", c.Of.Interpreter)
	}
	return Finding{
		Sentence: fmt.Sprintf("its threads can use %.1f of %d processors (%s: %.1f)%s", ready, c.Of.Cores,
			c.Control.Title, control, how),
		Explains: Rate, Share: c.rateShare(min(control, float64(c.Of.Cores)) / ready),
		Counter: Counter{Setting: Workers, To: "a worker for each core"},
	}
}

func switches(e *Evidence) float64 {
	return e.sum(func(p *Part) float64 { return p.Voluntary + p.Involuntary })
}

// crowded reports whether threads hinder each other.
func (e *Evidence) crowded() bool { return e.Cores > 0 && e.Demand >= crowdedDemand*float64(e.Cores) }

func oversubscribed(c *Case) Finding {
	if !c.Of.crowded() || c.Of.Demand < 2*c.Control.Demand {
		return Finding{}
	}
	us, how := c.more(switches)*switchUs, ""
	if us > 0 {
		how = fmt.Sprintf("; a request causes %s context switches instead of %s%s", count(switches(&c.Of)),
			count(switches(&c.Control)), c.shareClause(us))
	}
	return Finding{
		Sentence: fmt.Sprintf("%.1f of its threads at a time are running or ready to run on %s (%s: %.1f)%s",
			c.Of.Demand, processors(c.Of.Cores), c.Control.Title, c.Control.Demand, how),
		Explains: Weight, Share: c.share(us),
		Counter: Counter{Setting: Workers, To: "a worker for each core"},
	}
}

func processors(n int) string {
	if n == 1 {
		return "one processor"
	}
	return fmt.Sprintf("%d processors", n)
}
