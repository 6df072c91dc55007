package explain

import "fmt"

const (
	// bigAllocation is how many more bytes allocated per request are a cause: a buffer, and not the
	// few objects of a request.
	bigAllocation = 16 << 10
	// allocatedUs is about what allocating, clearing and collecting a KB costs.
	allocatedUs = 0.2

	// gcBound is the share of its CPU time from which a garbage collector is a cause.
	gcBound = 0.05

	// faults is how many more page faults per request show that memory is returned to the system
	// and allocated again. faultUs is about what a fault costs, with the page to clear.
	faults  = 0.5
	faultUs = 0.7
)

func allocation(c *Case) Finding {
	of, control := c.Of.app(), c.Control.app()
	bytes, faulted := of.AllocBytes-control.AllocBytes, of.PageFaults-control.PageFaults
	gcUs := of.GCShare*of.Us() - control.GCShare*control.Us()
	if c.Of.crowded() { // then its time includes that for which its threads wait
		gcUs = 0
	}
	f := Finding{
		Explains: Weight,
		Counter:  Counter{Setting: Memory, To: "a garbage collector that runs a quarter as often"},
	}
	us := max(gcUs, bytes/1024*allocatedUs, faulted*faultUs)
	switch {
	case bytes >= bigAllocation:
		f.Sentence = fmt.Sprintf("the application allocates about %s per request (%s: %s), and its garbage collector uses %s of its CPU time%s",
			bytesText(of.AllocBytes), c.Control.Title, bytesText(control.AllocBytes), percent(of.GCShare),
			c.shareClause(us))
	case of.GCShare-control.GCShare >= gcBound && gcUs > 0:
		f.Sentence = fmt.Sprintf("the garbage collector uses %s of the application's CPU time (%s: %s)%s",
			percent(of.GCShare), c.Control.Title, percent(control.GCShare), c.shareClause(us))
	case faulted >= faults:
		f.Sentence = fmt.Sprintf("the application causes %s page faults per request (%s: %s)%s",
			count(of.PageFaults), c.Control.Title, count(control.PageFaults), c.shareClause(us))
	}
	f.Share = c.share(us)
	return f
}
