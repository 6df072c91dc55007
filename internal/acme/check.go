package acme

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

const (
	// maxName is DNS's limit for a name, and maxLabel that for a part of it.
	maxName, maxLabel = 253, 63
	// maxNames is what authorities allow in a certificate.
	maxNames = 100
)

// Check returns the errors of a Config's issuers and issued certificates, joined. It reads the
// files with keys that the Config names, and changes nothing.
func (m *Manager) Check(config *conf.Config) error {
	var errs []error
	names, dirs := make(map[string]bool), make(map[string]string)
	for n := range config.Issuers {
		ic := &config.Issuers[n]
		if err := m.checkIssuer(ic); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", positionOf(ic), err))
		}
		if _, err := m.readSecrets(ic); err != nil {
			errs = append(errs, err)
		}
		if names[ic.Name] {
			errs = append(errs, fmt.Errorf("%s: duplicate issuer %q", positionOf(ic), ic.Name))
		}
		names[ic.Name] = true
		if other, ok := dirs[ic.StateDir]; ok {
			errs = append(errs, fmt.Errorf("%s: state_path %q is also that of issuer %q", positionOf(ic), ic.StateDir,
				other))
		}
		dirs[ic.StateDir] = ic.Name
	}
	for n := range config.Hosts {
		host := &config.Hosts[n]
		for l := range host.Listen {
			if issued := host.Listen[l].Issued; issued != nil {
				if err := checkIssued(config, issued); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", lineOf(host.Pos), err))
					break // it is the same one at each address
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (m *Manager) checkIssuer(ic *conf.Issuer) error {
	u, err := url.Parse(ic.Directory)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("invalid uri %q (must be the URL of an ACME directory)", ic.Directory)
	case ic.StateDir == "":
		return errors.New("missing folder of the state")
	case ic.Challenge == "dns-01" && m.config.DNS == nil:
		return errors.New("challenge dns-01 requires a program that sets DNS records (server.Options.DNS)")
	}
	switch ic.Challenge {
	case "", "http-01", "tls-alpn-01", "dns-01":
	default:
		return fmt.Errorf("unknown challenge %q (must be http-01 or tls-alpn-01)", ic.Challenge)
	}
	return checkKeyType(ic.AccountKey)
}

func checkIssued(config *conf.Config, issued *conf.Issued) error {
	ic := findIssuer(config, issued.Issuer)
	switch {
	case ic == nil:
		return fmt.Errorf("acme_certificate: unknown issuer %q", issued.Issuer)
	case len(issued.Names) == 0:
		return errors.New("acme_certificate: no names (list them, or add them to server_name)")
	case len(issued.Names) > maxNames:
		return fmt.Errorf("acme_certificate: %d names (maximum: %d)", len(issued.Names), maxNames)
	}
	if err := checkKeyType(issued.Key); err != nil {
		return fmt.Errorf("acme_certificate: %w", err)
	}
	for _, name := range issued.Names {
		if err := checkName(name); err != nil {
			return fmt.Errorf("acme_certificate: %q: %w", name, err)
		}
		if _, err := netip.ParseAddr(name); err == nil && ic.Challenge == "dns-01" {
			return fmt.Errorf("acme_certificate: %q: the challenge dns-01 of issuer %q cannot prove an IP address (use "+
				"http-01 or tls-alpn-01)", name, ic.Name)
		}
		if strings.HasPrefix(name, "*.") && ic.Challenge != "dns-01" {
			return fmt.Errorf("acme_certificate: %q: a wildcard requires the challenge dns-01, and issuer %q has another "+
				"one (list the names instead)", name, ic.Name)
		}
	}
	return nil
}

// checkName checks whether a name can be in a certificate. Names in other scripts must be written
// as in DNS ("xn--…").
func checkName(name string) error {
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Zone() != "" {
			return errors.New("an IP address with a zone")
		}
		return nil
	}
	name = strings.TrimPrefix(name, "*.")
	if name == "" || len(name) > maxName {
		return errors.New("not a DNS name")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return errors.New("not a DNS name (lower case; other scripts in the form xn--…)")
		}
	}
	return nil
}

// lineOf returns a position without its column.
func lineOf(pos string) string {
	return regexp.MustCompile(`(:\d+):\d+$`).ReplaceAllString(pos, "$1")
}

// positionOf returns where an issuer is configured, for messages.
func positionOf(ic *conf.Issuer) string {
	if ic.Pos != "" {
		return lineOf(ic.Pos) + ": acme_issuer " + ic.Name
	}
	return "acme_issuer " + ic.Name
}

func findIssuer(config *conf.Config, name string) *conf.Issuer {
	for i := range config.Issuers {
		if config.Issuers[i].Name == name {
			return &config.Issuers[i]
		}
	}
	return nil
}

// allIssued returns the issued certificates of a Config.
func allIssued(config *conf.Config) (all []*conf.Issued) {
	for i := range config.Hosts {
		for l := range config.Hosts[i].Listen {
			if issued := config.Hosts[i].Listen[l].Issued; issued != nil {
				all = append(all, issued)
			}
		}
	}
	return all
}

// identify returns a text that is equal for certificates that need not be distinguished: those with
// equal names, keys and issuers.
func identify(config *conf.Config, issued *conf.Issued) string {
	ic := *findIssuer(config, issued.Issuer)
	trusted := ic.Trusted
	ic.Pos, ic.Trusted = "", nil
	text := fmt.Sprintf("%s %s\n%+v", fileName(issued), issued.Names, ic)
	for _, cert := range trusted {
		text += fmt.Sprintf(" %x", sha256.Sum256(cert.Raw))
	}
	return text
}
