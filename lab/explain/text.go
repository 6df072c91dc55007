package explain

import "fmt"

// micros writes a time as a reader would say it.
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

// count writes a number per request.
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

// ofThe ends a sentence with what a cause makes of the difference in CPU time.
func (c *Case) ofThe(us float64) string {
	extra := c.extraUs()
	if extra <= 0 {
		return ""
	}
	return ": " + part("about ", us, extra, "that it costs more")
}

// nearlyAll is the share of a difference from which on a cause explains nearly all of it.
const nearlyAll = 0.9

// part returns how much of a difference a cause explains.
func part(about string, us, of float64, what string) string {
	if us >= nearlyAll*of {
		return fmt.Sprintf("nearly all of the %s %s", micros(of), what)
	}
	return fmt.Sprintf("%s%s of the %s %s", about, micros(us), micros(of), what)
}
