package explain

import "fmt"

// Thresholds of additional work, and its approximate costs, which only rank causes.
const (
	// hopUs is the CPU time from which a front is a cause.
	hopUs = 1

	// protocolUs is the extra CPU time of the application from which FastCGI is a cause.
	protocolUs = 1

	// writeUs is about what a small write to a loopback socket costs, with the receiver's work.
	writeUs = 2.5
	// manyWrites is how many more writes per request are a cause. One more may be a head that is
	// sent apart from its body, or a log.
	manyWrites = 3

	// logUs is about what appending a line to a file costs.
	logUs = 1.5
	// lineBytes is the shortest line of an access log: a method, a path and a status.
	lineBytes = 16
	// longLine is longer than any log line: more bytes in files are buffered responses.
	longLine = 4096

	// spilledWrites is how many positioned writes to files per request mean that responses are
	// buffered on disk. Servers write no other files that way.
	spilledWrites = 0.1

	// byteUs is about what another byte of a response costs: it is produced, copied twice and read.
	byteUs = 0.004
	// fieldBytes is the shortest header field that is reported.
	fieldBytes = 8
)

func extraHop(c *Case) Finding {
	front := c.Of.front()
	if front == nil || c.Control.front() != nil || front.Us() < hopUs {
		return Finding{}
	}
	calls := ""
	if front.Calls != nil {
		calls = fmt.Sprintf(", with %s reads and %s writes", count(front.calls(readCalls())),
			count(front.calls(writeCalls())))
	}
	return c.extra(front.Us(),
		fmt.Sprintf("its %s receives and forwards each request, which costs %s%s", front.Role, micros(front.Us()), calls),
		Counter{Setting: Hop, To: "no front before the application"})
}

func fastCGIRecords(c *Case) Finding {
	of, control := c.Of.app(), c.Control.app()
	more := of.Us() - control.Us()
	if c.Of.Protocol != FastCGI || c.Control.Protocol != HTTP || more < protocolUs {
		return Finding{}
	}
	calls := ""
	if of.Calls != nil && control.Calls != nil {
		calls = fmt.Sprintf(", with %s reads and %s writes (HTTP: %s and %s)", count(of.calls(readCalls())),
			count(of.calls(writeCalls())),
			count(control.calls(readCalls())), count(control.calls(writeCalls())))
	}
	return c.extra(more, fmt.Sprintf("the application speaks FastCGI, which costs it %s more%s", micros(more), calls),
		Counter{Setting: Protocol, To: "HTTP to the application"})
}

// writesMore returns the role whose writes exceed its counterpart's most, and both numbers. A front
// without a counterpart is compared with the application, because both send the response.
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
	spilled := c.more(func(e *Evidence) float64 { return e.calls(fileCalls()) }) >= spilledWrites
	if !c.Of.counted() || !c.Control.counted() || of-control < manyWrites || spilled ||
		c.Of.Protocol != c.Control.Protocol {
		return Finding{}
	}
	return c.extra((of-control)*writeUs,
		fmt.Sprintf("the %s sends a response in %s writes (%s: %s)", role, count(of), c.Control.Title, count(control)),
		Counter{Setting: Writes, To: "one write per response"})
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
		n = fmt.Sprintf(" with %s more writes", count(writes))
	}
	return c.extra(logUs,
		fmt.Sprintf("it writes %.0f bytes to a file per request%s, as an access log does", more, n),
		Counter{Setting: Log, To: "no access log"})
}

func bufferedToDisk(c *Case) Finding {
	writes := c.more(func(e *Evidence) float64 { return e.calls(fileCalls()) })
	bytes := c.more(fileBytes)
	if writes < spilledWrites && bytes <= longLine {
		return Finding{}
	}
	part := c.Of.app()
	if front := c.Of.front(); front != nil {
		part = *front
	}
	how := bytesText(bytes)
	if writes >= spilledWrites {
		how = fmt.Sprintf("%s in %s writes", how, count(writes))
	}
	if bytes < 1 {
		how = count(writes) + " writes"
	}
	return c.extra(part.Us()-c.Control.part(part.Role).Us(),
		fmt.Sprintf("its %s writes responses to temporary files before it sends them, %s per request", part.Role, how),
		Counter{Setting: Buffers, To: "buffers as large as a response"})
}

// longerHead compares the lengths of responses, which may differ in declared fields, such as Date.
func longerHead(c *Case) Finding {
	more := c.Of.Bytes - c.Control.Bytes
	if c.Of.Protocol != c.Control.Protocol || more < fieldBytes || c.Control.Bytes == 0 {
		return Finding{}
	}
	return c.extra(more*byteUs,
		fmt.Sprintf("its responses are %s longer than the %s of %s", bytesText(more), bytesText(c.Control.Bytes),
			c.Control.Title),
		Counter{Setting: Header, To: "the control's header fields"})
}
