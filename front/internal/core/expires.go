package core

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
)

type expires struct {
	text     Text
	constant grammar.Expiry // if text is constant
	modified bool
}

func (c *Compiler) expires(e *conf.Expires) (*expires, error) {
	if e == nil {
		return nil, nil
	}
	out := &expires{text: c.Text("expires", e.Text), modified: e.Modified}
	if out.text.Constant() {
		var err error
		if out.constant, err = grammar.ParseExpiry(string(e.Text), e.Modified); err != nil {
			return nil, fmt.Errorf("expires: %w", err)
		}
		if out.constant.Kind == grammar.ExpiryOff {
			return nil, nil
		}
	}
	return out, nil
}

func (e *expires) set(x *Exchange, header http.Header) {
	what := e.constant
	if !e.text.Constant() {
		var err error
		if what, err = grammar.ParseExpiry(e.text.Eval(x), e.modified); err != nil {
			return // as in nginx
		}
	}
	var at, control string
	switch now := time.Now(); what.Kind {
	case grammar.ExpiryOff:
		return
	case grammar.ExpiryEpoch:
		at, control = "Thu, 01 Jan 1970 00:00:01 GMT", "no-cache"
	case grammar.ExpiryMax:
		at, control = "Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000"
	default:
		until := expiresAt(what, now, e.modified, header)
		at, control = until.UTC().Format(http.TimeFormat), "no-cache"
		if age := until.Unix() - now.Unix(); age >= 0 && what.After >= 0 {
			control = "max-age=" + strconv.FormatInt(age, 10)
		}
	}
	header["Expires"], header["Cache-Control"] = []string{at}, []string{control}
}

// expiresAt returns when a response of now expires.
func expiresAt(e grammar.Expiry, now time.Time, modified bool, header http.Header) time.Time {
	if e.Kind == grammar.ExpiryAt {
		y, m, d := now.Date()
		until := time.Date(y, m, d, 0, 0, int(e.After/time.Second), 0, now.Location())
		if !until.After(now) {
			until = time.Date(y, m, d+1, 0, 0, int(e.After/time.Second), 0, now.Location())
		}
		return until
	}
	if modified {
		if at, err := http.ParseTime(header.Get("Last-Modified")); err == nil {
			now = at
		}
	}
	return now.Add(e.After)
}
