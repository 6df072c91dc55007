package acme

import (
	"context"
	"encoding/json"
	"time"
)

const (
	// adviceDefault is the longest time between requests for advice if the issuer names none, and
	// adviceMax if it does (RFC 9773, 4.3.2).
	adviceDefault = 6 * time.Hour
	adviceMax     = 24 * time.Hour
)

// advice is an issuer's renewal information about a certificate (RFC 9773).
type advice struct {
	window *window
	next   time.Time // of the next request
}

// requestAdvice requests the renewal information of the current certificate from its issuer.
func (c *Certificate) requestAdvice(ctx context.Context) {
	now, current, timing := c.now(), c.current.Load(), c.manager.config.Timing
	c.advice.next = now.Add(pace(current.period().lifetime(), timing.InfoMin, adviceDefault))
	from := c.issuer
	if from.conf.Directory != current.directory {
		return // it was issued by one that is no longer configured
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := from.client.GetRenewalInfo(ctx, current.Leaf)
	if err != nil {
		return // as if there were no advice: the certificate is renewed in time
	}
	if info.RetryAfter != nil {
		wait := time.Until(*info.RetryAfter) // computed with the system's clock
		c.advice.next = now.Add(min(max(wait, timing.InfoMin), adviceMax))
	}
	before := c.advice.window
	c.advice.window = &window{info.SuggestedWindow.Start, info.SuggestedWindow.End}
	if info.ExplanationURL != "" && (before == nil || *before != *c.advice.window) {
		c.logf("%s advises to renew it between %s and %s: %s", from.conf.Name,
			info.SuggestedWindow.Start.Format(time.DateTime), info.SuggestedWindow.End.Format(time.DateTime),
			info.ExplanationURL)
	}
}

// failures is the content of NAME.json.
type failures struct {
	InARow    int       `json:"failures"`
	Last      time.Time `json:"last"`
	NotBefore time.Time `json:"notBefore"` // a rate limit of the issuer
}

func (c *Certificate) storeFailures(now time.Time, delay time.Duration) {
	f := failures{InARow: c.failures, Last: now}
	if delay > 0 {
		f.NotBefore = now.Add(delay)
	}
	if text, err := json.Marshal(f); err == nil {
		_ = c.store.write(c.name+".json", text) // without it a restart tries sooner
	}
}

// restoreFailures delays the first attempt after a restart. A person who has removed the cause of a
// failure does not wait for the whole backoff, only for RetryMin and for rate limits. Times that
// are not plausible, because a clock was wrong, do not count.
func (c *Certificate) restoreFailures() {
	text, err := c.store.read(c.name + ".json")
	var f failures
	if err != nil || json.Unmarshal(text, &f) != nil {
		return
	}
	now, retryMin := c.now(), c.manager.config.Timing.RetryMin
	c.failures = max(0, f.InARow)
	if at := f.Last.Add(retryMin); at.Before(now.Add(retryMin)) {
		c.retryAt = at
	}
	if f.NotBefore.After(c.retryAt) && f.NotBefore.Before(now.Add(maxRetryAfter)) {
		c.retryAt = f.NotBefore
	}
}
