package explain

import "fmt"

const (
	// bigAllocation is from how many more bytes allocated per request on they are a cause:
	// it is a buffer, and not the few objects of a request.
	bigAllocation = 16 << 10
	// allocatedUs is about what allocating, clearing and collecting a KB costs.
	allocatedUs = 0.2

	// gcBound is from which share of its CPU time on a collector is a cause.
	gcBound = 0.05

	// faults is from how many more page faults per request on memory is given back and
	// taken anew. faultUs is about what one costs, with the page to clear.
	faults  = 0.5
	faultUs = 0.7
)

func allocation(c *Case) Finding {
	of, control := c.Of.app(), c.Control.app()
	bytes, faulted := of.AllocBytes-control.AllocBytes, of.PageFaults-control.PageFaults
	gcUs := of.GCShare*of.Us() - control.GCShare*control.Us()
	if c.Of.crowded() { // then its time is mostly that for which its threads wait
		gcUs = 0
	}
	f := Finding{
		Numbers: []Number{
			{"bytes allocated per request", of.AllocBytes, control.AllocBytes},
			{"share of CPU time that the collector took", of.GCShare, control.GCShare},
			{"page faults per request", of.PageFaults, control.PageFaults},
		},
		Explains: Weight, IsCounted: true,
		Counter: Counter{Setting: Memory, To: "a collector that runs a quarter as often"},
	}
	us := max(gcUs, bytes/1024*allocatedUs, faulted*faultUs)
	switch {
	case bytes >= bigAllocation:
		f.Sentence = fmt.Sprintf("the application allocates about %s per request, where that of %s allocates %s, and its collector takes %s of its time%s",
			bytesText(of.AllocBytes), c.Control.Title, bytesText(control.AllocBytes), percent(of.GCShare), c.ofThe(us))
	case of.GCShare-control.GCShare >= gcBound && gcUs > 0:
		f.Sentence = fmt.Sprintf("the application's collector takes %s of its time, where with %s it takes %s%s",
			percent(of.GCShare), c.Control.Title, percent(control.GCShare), c.ofThe(us))
	case faulted >= faults:
		f.Sentence = fmt.Sprintf("the application touches %s new pages of memory per request, where that of %s touches %s%s",
			count(of.PageFaults), c.Control.Title, count(control.PageFaults), c.ofThe(us))
	}
	f.Share = c.share(us)
	return f
}
