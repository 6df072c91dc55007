package explain

import "fmt"

// What more work looks like, and about what it costs. The costs rank causes only.
const (
	// hopBound is from which CPU time on a front is worth a sentence.
	hopUs = 1

	// protocolUs is from which difference in the application on FastCGI is.
	protocolUs = 1

	// writeUs is about what a small write to a socket on loopback costs, the receiver's work
	// included.
	writeUs = 2.5
	// manyWrites is from how many more writes per request on they are small pieces. One more
	// may be a head apart from its body, or a log.
	manyWrites = 3

	// logUs is about what appending a line to a file costs.
	logUs = 1.5
	// lineBytes is the shortest line of an access log: a method, a path and a status.
	lineBytes = 16
	// longLine is longer than lines are: what is written to files beyond it is an answer.
	longLine = 4096

	// spilled is from how many writes at an offset in a file per request on an answer is
	// buffered there: servers keep no other files that they write so.
	spilled = 0.1

	// byteUs is about what another byte of an answer costs: it is made, copied twice and read.
	byteUs = 0.004
	// fieldBytes is the shortest header field worth a sentence.
	fieldBytes = 8
)

func extraHop(c *Case) Finding {
	front := c.Of.front()
	if front == nil || c.Control.front() != nil || front.Us() < hopUs {
		return Finding{}
	}
	calls := ""
	if front.Calls != nil {
		calls = fmt.Sprintf(", with %s reads and %s writes", count(front.calls(readCalls())), count(front.calls(writeCalls())))
	}
	return Finding{
		Sentence: fmt.Sprintf("its %s takes a request and hands it on, which costs it %s%s%s", front.Role, micros(front.Us()), calls, c.ofThe(front.Us())),
		Numbers:  []Number{{"CPU time of " + front.Role + " in µs per request", front.Us(), 0}},
		Explains: Weight, Share: c.share(front.Us()), IsCounted: true,
		Counter: Counter{Setting: Hop, To: "nothing before the application"},
	}
}

func fastCGIRecords(c *Case) Finding {
	of, control := c.Of.app(), c.Control.app()
	more := of.Us() - control.Us()
	if c.Of.Protocol != FastCGI || c.Control.Protocol != HTTP || more < protocolUs {
		return Finding{}
	}
	calls := ""
	if of.Calls != nil && control.Calls != nil {
		calls = fmt.Sprintf(", with %s reads and %s writes where HTTP needs %s and %s", count(of.calls(readCalls())), count(of.calls(writeCalls())),
			count(control.calls(readCalls())), count(control.calls(writeCalls())))
	}
	return Finding{
		Sentence: fmt.Sprintf("the application speaks FastCGI, for which it takes %s more%s%s", micros(more), calls, c.ofThe(more)),
		Numbers: []Number{
			{"CPU time of the application in µs per request", of.Us(), control.Us()},
			{"reads per request", of.calls(readCalls()), control.calls(readCalls())},
			{"writes per request", of.calls(writeCalls()), control.calls(writeCalls())},
		},
		Explains: Weight, Share: c.share(more),
		Counter: Counter{Setting: Protocol, To: "HTTP to the application"},
	}
}

// writesMore is by how much more the part that writes most does than its counterpart, and the
// two numbers. A front without a counterpart is compared with the application: both answer.
func writesMore(c *Case) (role string, of, control float64) {
	for i := range c.Of.Parts {
		p := &c.Of.Parts[i]
		with := c.Control.app()
		if i > 0 || c.Control.front() != nil {
			with = c.Control.part(p.Role)
		}
		if n, m := p.calls(writeCalls()), with.calls(writeCalls()); n-m > of-control {
			role, of, control = p.Role, n, m
		}
	}
	return role, of, control
}

func smallWrites(c *Case) Finding {
	role, of, control := writesMore(c)
	spilled := c.more(func(e *Evidence) float64 { return e.calls(fileCalls()) }) >= spilled // its writes are of another kind
	if !c.Of.counted() || !c.Control.counted() || of-control < manyWrites || spilled || c.Of.Protocol != c.Control.Protocol {
		return Finding{}
	}
	us := (of - control) * writeUs
	return Finding{
		Sentence: fmt.Sprintf("of an answer the %s makes %s writes, where with %s it is %s%s", role, count(of), c.Control.Title, count(control), c.ofThe(us)),
		Numbers:  []Number{{"writes per request", of, control}},
		Explains: Weight, Share: c.share(us), IsCounted: true,
		Counter: Counter{Setting: Writes, To: "one write an answer"},
	}
}

func allWrites(e *Evidence) float64 { return e.calls(writeCalls()) }

func fileBytes(e *Evidence) float64 { return e.sum(func(p *Part) float64 { return p.FileBytes }) }

func accessLog(c *Case) Finding {
	more := c.more(fileBytes)
	writes := c.more(allWrites)
	if more < lineBytes || more > longLine || c.Of.counted() && writes < 0.5 {
		return Finding{}
	}
	n := ""
	if c.Of.counted() {
		n = fmt.Sprintf(" with %s writes more", count(writes))
	}
	return Finding{
		Sentence: fmt.Sprintf("it writes %.0f bytes to a file per request%s, as an access log does%s", more, n, c.ofThe(logUs)),
		Numbers:  []Number{{"bytes written to files per request", fileBytes(&c.Of), fileBytes(&c.Control)}},
		Explains: Weight, Share: c.share(logUs), IsCounted: true,
		Counter: Counter{Setting: Log, To: "no access log"},
	}
}

func bufferedToDisk(c *Case) Finding {
	writes := c.more(func(e *Evidence) float64 { return e.calls(fileCalls()) })
	bytes := c.more(fileBytes)
	if writes < spilled && bytes <= longLine {
		return Finding{}
	}
	part := c.Of.app()
	if front := c.Of.front(); front != nil {
		part = *front
	}
	us := part.Us() - c.Control.part(part.Role).Us()
	how := bytesText(bytes)
	if writes >= spilled {
		how = fmt.Sprintf("%s in %s writes", how, count(writes))
	}
	if bytes < 1 {
		how = count(writes) + " pieces"
	}
	return Finding{
		Sentence: fmt.Sprintf("its %s writes answers to temporary files before it sends them, %s per request%s", part.Role, how, c.ofThe(us)),
		Numbers: []Number{
			{"writes to files per request", c.Of.calls(fileCalls()), c.Control.calls(fileCalls())},
			{"bytes written to files per request", fileBytes(&c.Of), fileBytes(&c.Control)},
		},
		Explains: Weight, Share: c.share(us), IsCounted: true,
		Counter: Counter{Setting: Buffers, To: "buffers as large as an answer"},
	}
}

// longerHead is about answers that differ as the experiment declares: Date, or a field more.
func longerHead(c *Case) Finding {
	more := c.Of.Bytes - c.Control.Bytes
	if c.Of.Protocol != c.Control.Protocol || more < fieldBytes || c.Control.Bytes == 0 {
		return Finding{}
	}
	return Finding{
		Sentence: fmt.Sprintf("its answers are %s longer than the %s of %s%s", bytesText(more), bytesText(c.Control.Bytes), c.Control.Title, c.ofThe(more*byteUs)),
		Numbers:  []Number{{"bytes of a response", c.Of.Bytes, c.Control.Bytes}},
		Explains: Weight, Share: c.share(more * byteUs), IsCounted: true,
		Counter: Counter{Setting: Header, To: "the control's header fields"},
	}
}
