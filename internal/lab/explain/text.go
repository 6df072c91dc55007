package explain

import "fmt"

// micros formats a time with two or three digits.
func micros(us float64) string {
	switch {
	case us >= 10_000:
		return fmt.Sprintf("%.0f ms", us/1e3)
	case us >= 1000:
		return fmt.Sprintf("%.1f ms", us/1e3)
	case us >= 10:
		return fmt.Sprintf("%.0f µs", us)
	}
	return fmt.Sprintf("%.1f µs", us)
}

// count formats a number per request.
func count(n float64) string {
	switch {
	case n == 0:
		return "none"
	case n >= 100:
		return fmt.Sprintf("%.0f", n)
	case n < 0.005:
		return "almost none"
	case n < 0.95:
		return fmt.Sprintf("%.2f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

func bytesText(n float64) string {
	if n >= 10_000 {
		return fmt.Sprintf("%.0f KB", n/1e3)
	}
	return fmt.Sprintf("%.0f bytes", n)
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// shareClause returns the end of a sentence: how much of the extra CPU time a cause explains.
func (c *Case) shareClause(us float64) string {
	extra := c.extraUs()
	if extra <= 0 {
		return ""
	}
	return ": " + shareText("about ", us, extra)
}

// nearlyAll is the share from which a cause explains nearly all of a difference.
const nearlyAll = 0.9

// shareText returns how much of a difference a cause explains.
func shareText(about string, us, of float64) string {
	if us >= nearlyAll*of {
		return fmt.Sprintf("nearly all of the %s difference", micros(of))
	}
	return fmt.Sprintf("%s%s of the %s difference", about, micros(us), micros(of))
}
