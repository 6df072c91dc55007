package explain

import "fmt"

const (
	// oneCoreFrom and oneCoreTo bound how many processors threads are ready for when one at a
	// time can work: what is done outside of their turns comes on top.
	oneCoreFrom = 0.7
	oneCoreTo   = 1.75
	// wider is how many times as many the control must be ready for: it shows that there was
	// work for more.
	wider = 1.2
	// slower is how many times the control's rate a contender must miss.
	slower = 0.9

	// turns is from how many more waits per request on threads wait for each other.
	turns = 0.05
	// switchUs is about what a context switch costs, with the cache that it loses.
	switchUs = 3
	// crowd is how many threads that are ready for each core are in each other's way.
	crowd = 4

	// generatorBound is from which share of a CPU on a thread of the generator may be
	// what limits the rate.
	generatorFull = 0.9
	// roomBound is the share of their processors that servers then leave unused.
	roomBound = 0.8
)

func oneCore(c *Case) Finding {
	ready, control := c.Of.Demand, c.Control.Demand
	if c.Of.Cores < 2 || ready < oneCoreFrom || ready > oneCoreTo || control < wider*ready || c.Of.PerSecond > slower*c.Control.PerSecond {
		return Finding{}
	}
	how := ""
	if n := c.more(func(e *Evidence) float64 { return e.sum(func(p *Part) float64 { return p.Voluntary }) }); n >= turns {
		how = fmt.Sprintf("; its threads wait for each other %s times per request more", count(n))
	}
	if c.Of.Interpreter != "" {
		how += fmt.Sprintf("; %s runs one thread of a process at a time", c.Of.Interpreter)
	}
	return Finding{
		Sentence: fmt.Sprintf("it has work for %.1f of %d processors at a time, where %s has work for %.1f%s", ready, c.Of.Cores, c.Control.Title, control, how),
		Numbers:  []Number{{"processors that threads were running on or ready for", ready, control}},
		Explains: Rate, Share: c.rateShare(min(control, float64(c.Of.Cores)) / ready),
		Counter: Counter{Setting: Workers, To: "a worker for each core"},
	}
}

func switches(e *Evidence) float64 {
	return e.sum(func(p *Part) float64 { return p.Voluntary + p.Involuntary })
}

// crowded reports whether workers are in each other's way.
func (e *Evidence) crowded() bool { return e.Cores > 0 && e.Demand >= crowd*float64(e.Cores) }

func oversubscribed(c *Case) Finding {
	if !c.Of.crowded() || c.Of.Demand < 2*c.Control.Demand {
		return Finding{}
	}
	us, how := c.more(switches)*switchUs, ""
	if us > 0 {
		how = fmt.Sprintf("; a request has to change threads %s times and not %s%s", count(switches(&c.Of)), count(switches(&c.Control)), c.ofThe(us))
	}
	return Finding{
		Sentence: fmt.Sprintf("%.1f of its workers at a time are ready to run on %s, where with %s it is %.1f%s",
			c.Of.Demand, processors(c.Of.Cores), c.Control.Title, c.Control.Demand, how),
		Numbers: []Number{
			{"processors that threads were running on or ready for", c.Of.Demand, c.Control.Demand},
			{"context switches per request", switches(&c.Of), switches(&c.Control)},
		},
		Explains: Weight, Share: c.share(us), IsCounted: true,
		Counter: Counter{Setting: Workers, To: "a worker for each core"},
	}
}

func processors(n int) string {
	if n == 1 {
		return "one processor"
	}
	return fmt.Sprintf("%d processors", n)
}

func generatorBound(c *Case) Finding {
	if c.Of.GeneratorBusy < generatorFull || c.Of.Cores == 0 || c.Of.used() > roomBound*float64(c.Of.Cores) {
		return Finding{}
	}
	return Finding{
		Sentence: fmt.Sprintf("the generator was %s busy while the servers used %.1f of %s: the rate is the generator's", percent(c.Of.GeneratorBusy), c.Of.used(), processors(c.Of.Cores)),
		Numbers:  []Number{{"share of a CPU that the generator used", c.Of.GeneratorBusy, c.Control.GeneratorBusy}, {"processors busy", c.Of.used(), c.Control.used()}},
		Explains: Rate, Share: 1,
		Counter: Counter{Setting: Generator, To: "more cores for the generator"},
	}
}
