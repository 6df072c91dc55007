package explain

import "fmt"

// Thresholds of additional work, and its approximate costs, which only rank causes.
const (
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
)

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
