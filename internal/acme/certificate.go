package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// maxSleep limits how long a certificate waits before it looks at the clock again, which may have
// been set. Timers stop while the machine sleeps.
const maxSleep = time.Minute

// Certificate is a certificate that is kept valid. See the package comment for its states.
type Certificate struct {
	manager *Manager
	spec    conf.Issued
	issuer  *issuer
	store   *store // the issuer's
	name    string // of its files
	current atomic.Pointer[certificate]
	stop    context.CancelFunc // nil unless it is renewed

	// What follows belongs to the goroutine that renews it.

	failures int       // in a row
	retryAt  time.Time // no attempt before this
	unsaved  []byte    // a certificate's file that could not be written
	advice   advice
}

// GetCertificate returns the certificate, or nil if there is none yet: package tls then rejects the
// handshake with the alert "unrecognized name".
func (c *Certificate) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := c.current.Load(); current != nil {
		return &current.Certificate, nil
	}
	return nil, nil
}

// String returns the names, for messages.
func (c *Certificate) String() string { return strings.Join(c.spec.Names, " ") }

func (c *Certificate) now() time.Time { return c.manager.config.Now() }

// logf logs a line about the certificate.
func (c *Certificate) logf(format string, args ...any) {
	c.manager.config.Log(fmt.Sprintf("acme: %s: ", c) + fmt.Sprintf(format, args...))
}

// load reads the certificate from its file. It keeps the current one unless the file's was issued
// later. It reports whether it has changed. A file that cannot be parsed is logged: it will be
// replaced.
func (c *Certificate) load() (changed bool, err error) {
	text, err := c.store.read(c.name + ".pem")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cert, err := parseCertificate(text, c.spec.Names)
	if err != nil {
		c.logf("%s: %v (a new certificate will be ordered)", c.store.path(c.name+".pem"), err)
		return false, nil
	}
	if current := c.current.Load(); current != nil && !cert.Leaf.NotBefore.After(current.Leaf.NotBefore) {
		return false, nil
	}
	c.current.Store(cert)
	c.advice = advice{}
	return true, nil
}

// run renews the certificate until ctx ends.
func (c *Certificate) run(ctx context.Context) {
	c.restoreFailures()
	for ctx.Err() == nil {
		now := c.now()
		left, leftOfAdvice := timeLeft(c.due(), now), timeLeft(c.advice.next, now)
		switch {
		case left <= 0:
			c.attempt(ctx)
		case c.current.Load() == nil:
			sleep(ctx, min(left, maxSleep))
		case leftOfAdvice <= 0:
			c.requestAdvice(ctx)
		default:
			sleep(ctx, min(left, leftOfAdvice, maxSleep))
		}
	}
}

// timeLeft returns the time until at by the clock that reaches it first. While the machine sleeps
// the monotonic clock stops, and the wall clock may be set back.
func timeLeft(at, now time.Time) time.Duration { return min(at.Sub(now), at.Round(0).Sub(now)) }

// sleep waits until ctx ends, or for some time.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// due returns the time of the next attempt.
func (c *Certificate) due() time.Time {
	var at time.Time
	if current := c.current.Load(); current != nil && c.unsaved == nil {
		at = c.renewalTime(current)
	}
	if at.Before(c.retryAt) {
		return c.retryAt
	}
	return at
}

func (c *Certificate) renewalTime(cert *certificate) time.Time {
	return c.manager.config.Timing.renewalTime(cert.period(), c.advice.window, fractionOf(cert.Leaf.Raw))
}

// attempt orders the certificate, unless another process does or has done so.
func (c *Certificate) attempt(ctx context.Context) {
	select {
	case c.store.slots <- struct{}{}:
		defer func() { <-c.store.slots }()
	case <-ctx.Done():
		return
	}
	unlock, err := c.store.lock(c.name)
	if errors.Is(err, errLocked) {
		c.retryAt = c.now().Add(c.manager.config.Timing.LockRetry)
		return
	}
	if err != nil {
		c.fail(err, 0)
		return
	}
	defer unlock()
	if c.unsaved != nil {
		c.noteWritten(c.unsaved, c.write(c.unsaved))
		return
	}
	if c.adopt() {
		return
	}
	c.obtain(ctx)
}

// adopt takes over a certificate that another process has stored.
func (c *Certificate) adopt() bool {
	changed, err := c.load()
	if err != nil {
		c.logf("%v", err)
	}
	if !changed {
		return false
	}
	c.succeed("serving the certificate that another process has obtained")
	return c.now().Before(c.due())
}

// obtain orders the certificate.
func (c *Certificate) obtain(ctx context.Context) {
	cert, delay, err := c.orderWithin(ctx)
	if err == nil {
		c.install(cert)
	} else if ctx.Err() == nil { // else the process stops: that is no failure
		c.fail(fmt.Errorf("%s: %w", c.issuer.conf.Name, err), delay)
	}
}

// orderWithin orders a certificate within orderTimeout. It returns how long the issuer wants no
// further order, but at most a part of the time that the current certificate is valid.
func (c *Certificate) orderWithin(ctx context.Context) (*certificate, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	i := c.issuer
	if i.conf.Challenge == "tls-alpn-01" {
		release, err := c.manager.challenges.reserve(ctx, c.spec.Names)
		if err != nil {
			return nil, 0, err
		}
		defer release()
	}
	i.transport.retryAfter.Store(0)
	cert, err := c.order(ctx)
	if isUnknownAccount(err) { // the issuer has lost or removed it
		i.forget()
		cert, err = c.order(ctx)
	}
	delay := time.Duration(i.transport.retryAfter.Load())
	if current := c.current.Load(); current != nil {
		delay = min(delay, max(current.remaining(c.now())/4, current.period().lifetime()/pacePart))
	}
	return cert, delay, err
}

// install serves a new certificate, stores it, and then logs it: a reload after that finds it.
func (c *Certificate) install(cert *certificate) {
	c.current.Store(cert)
	c.advice = advice{}
	err := c.write(cert.text)
	c.logf("%s has issued a certificate, %s", c.issuer.conf.Name, c.validity(cert))
	if now := c.now(); !cert.isValid(now) {
		c.logf("the new certificate is valid from %s to %s, and this machine's clock is at %s: check the clock",
			cert.Leaf.NotBefore.Format(time.DateTime), cert.Leaf.NotAfter.Format(time.DateTime),
			now.UTC().Format(time.DateTime))
	}
	c.noteWritten(cert.text, err)
}

// write writes the file of a certificate that is already served.
func (c *Certificate) write(text []byte) error { return c.store.write(c.name+".pem", text) }

// noteWritten notes whether the file was written. If not, it is written later.
func (c *Certificate) noteWritten(text []byte, err error) {
	if err != nil {
		c.unsaved = text
		c.fail(fmt.Errorf("the new certificate is served but cannot be stored: %w", err), 0)
		return
	}
	c.unsaved = nil
	_ = c.store.remove(c.name + ".key") // it is not used again, because it is that of the certificate
	c.succeed("")
}

// succeed ends a series of failures.
func (c *Certificate) succeed(text string) {
	if text != "" {
		c.logf("%s, %s", text, c.validity(c.current.Load()))
	}
	if c.failures > 0 {
		_ = c.store.remove(c.name + ".json") // it only delays the first attempt after a restart
	}
	c.failures, c.retryAt = 0, time.Time{}
}

// fail schedules the next attempt. delay is how long the issuer wants none.
func (c *Certificate) fail(err error, delay time.Duration) {
	c.failures++
	now, current := c.now(), c.current.Load()
	backoff := c.manager.config.Timing.backoff(c.failures, current.period().lifetime(), current.remaining(now))
	wait := max(delay, backoff)
	c.retryAt = now.Add(wait)
	state := "no certificate yet: TLS handshakes for it fail"
	if current != nil {
		state = "still serving the one " + c.validity(current)
	}
	c.logf("%v", err)
	c.logf("%s; next attempt in %s", state, wait.Round(time.Second))
	c.storeFailures(now, delay)
}

// validity describes how long a certificate is valid.
func (c *Certificate) validity(cert *certificate) string {
	text := "valid until " + cert.Leaf.NotAfter.UTC().Format(time.DateTime)
	if c.now().After(cert.Leaf.NotAfter) {
		text += " (expired)"
	}
	return text
}
