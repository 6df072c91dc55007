package clients

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/message"
)

const (
	// userIDLen is the length of an ID in a cookie, without its padding.
	userIDLen = 22
	// firstUserID and userIDStep make the sequence numbers of nginx: the lowest byte never changes,
	// and with it no ID ends in a zero, which stands for "no ID".
	firstUserID, userIDStep = 0x03030302, 0x100
	// cookieTime is the format of the expiry up to 2037, which nginx and old clients share.
	cookieTime = "Mon, 02-Jan-06 15:04:05 GMT"
	// lastCookieTime is the expiry for userid_expires max.
	lastCookieTime = "Thu, 31-Dec-37 23:55:55 GMT"
)

// UserIDModule identifies clients by cookies: userid and the directives with that prefix.
func UserIDModule() core.Module {
	return core.Module{
		Compile:   compileUserID,
		Variables: userIDVariables,
		NewState:  func() any { return newUserIDSequence() },
		CopyState: func(x *core.Exchange, at core.Slot) any {
			u, _ := x.ModuleRules(at).(*userID)
			if u == nil {
				return nil
			}
			id := *u.of(x)
			id.make(x, u)
			return &id
		},
	}
}

type userID struct {
	at         core.Slot // of the userIDSequence, and of a request's clientID
	from       *conf.UserID
	name       string
	attributes string    // what follows the expiry in the cookie
	reset      core.Text // $uid_reset
}

// userIDSequence makes IDs of the process unique.
type userIDSequence struct {
	start uint32 // differs between processes
	count atomic.Uint32
}

// newUserIDSequence sets the start, as nginx does: a part of the time and the number of the process.
func newUserIDSequence() *userIDSequence {
	const tick = 20 * time.Microsecond
	return &userIDSequence{start: uint32(time.Now().Nanosecond()/int(tick))<<16 | uint32(os.Getpid())}
}

// clientID is the ID of a client: four numbers, of which the last is not 0, or none.
type clientID struct {
	got, set [4]uint32
	cookie   string // as received
	isReset  bool
	isMade   bool // set is final
}

func compileUserID(c *core.Compiler, s *conf.Settings, at core.Slot) (e core.Effect) {
	from := s.UserID
	if from == nil {
		return e
	}
	if !slices.Contains([]string{"on", "v1", "log"}, from.Mode) {
		c.Failf("userid: invalid mode %q: want on, v1 or log", from.Mode)
	}
	u := &userID{at: at, from: from, name: cmp.Or(from.Name, "uid")}
	if !httpguts.ValidHeaderFieldName(u.name) {
		c.Failf("userid: invalid name %q of a cookie", u.name)
	}
	if len(from.Mark) > 1 {
		c.Failf("userid: invalid mark %q: want one character", from.Mark)
	}
	path := cmp.Or(from.Path, "/")
	if from.Domain != "" {
		u.attributes = "; domain=" + from.Domain
	}
	u.attributes += "; path=" + path
	for _, flag := range from.Flags {
		u.attributes += "; " + flag
	}
	if !httpguts.ValidHeaderFieldValue(u.attributes+from.P3P) || strings.ContainsAny(path+from.Domain, ";") {
		c.Failf("userid: invalid path, domain or P3P")
	}
	u.reset = c.Text("userid", "$uid_reset")
	if e.Rules = u; from.Mode != "log" {
		e.Head = u.setCookie
	}
	return e
}

// setCookie sets the cookie of a client that has none, or whose cookie lacks the mark.
func (u *userID) setCookie(w *core.Writer) {
	id, header := u.of(w.X), w.Header()
	id.make(w.X, u)
	if id.set[3] == 0 {
		return
	}
	from := u.from
	value := id.cookie
	if id.got[3] == 0 || id.isReset {
		value = base64.RawStdEncoding.EncodeToString(id.bytes())
	}
	cookie := u.name + "=" + value[:userIDLen] + cmp.Or(from.Mark, "=") + "="
	switch {
	case from.Expires < 0:
		cookie += "; expires=" + lastCookieTime
	case from.Expires > 0:
		at := time.Now().Add(from.Expires).UTC()
		format := cookieTime
		if at.Year() > 2037 {
			format = strings.Replace(cookieTime, "06", "2006", 1)
		}
		cookie += "; expires=" + at.Format(format)
	}
	header["Set-Cookie"] = append(slices.Clip(header["Set-Cookie"]), cookie+u.attributes)
	if from.P3P != "" {
		header["P3P"] = []string{from.P3P} // as the standard spells it
	}
}

// bytes returns the bytes of the ID, in the order of nginx on machines with small-endian numbers.
func (id *clientID) bytes() []byte {
	var b []byte
	for _, n := range id.set {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

// of returns the ID of the request's client, which is found once.
func (u *userID) of(x *core.Exchange) *clientID {
	if id, ok := x.ModuleState(u.at).(*clientID); ok {
		return id
	}
	id := new(clientID)
	x.SetModuleState(u.at, id)
	value := message.Cookie(x.Request.Header["Cookie"], u.name)
	if value == "" {
		return id
	}
	if len(value) < userIDLen {
		x.Errorf(errorlog.LevelError, "client sent too short userid cookie %q", errorlog.Truncate(value))
		return id
	}
	b, err := base64.RawStdEncoding.DecodeString(value[:userIDLen])
	if err != nil {
		x.Errorf(errorlog.LevelError, "client sent invalid userid cookie %q", errorlog.Truncate(value))
		return id
	}
	id.cookie = value
	for i := range id.got {
		id.got[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return id
}

// make makes the ID that the client receives, unless its cookie is valid.
func (id *clientID) make(x *core.Exchange, u *userID) {
	if id.isMade {
		return
	}
	id.isMade = true
	from := u.from
	if id.got[3] != 0 {
		reset := u.reset.Eval(x)
		if reset == "" || reset == "0" {
			hasMark := len(id.cookie) > userIDLen+1 && id.cookie[userIDLen:userIDLen+2] == from.Mark+"="
			if from.Mark != "" && !hasMark {
				id.set = id.got
			}
			return
		}
		if id.isReset = true; reset == "log" {
			x.Errorf(errorlog.LevelNotice, "userid cookie %q was reset", u.name+"="+hexID(&id.got))
		}
	}
	s := x.Plan.State.Modules[u.at].(*userIDSequence)
	now, number := uint32(time.Now().Unix()), s.count.Add(1)
	if from.Mode == "v1" {
		id.set = [4]uint32{0, now, s.start, 1 + (number-1)*userIDStep}
		if from.Service != nil {
			id.set[0] = *from.Service
		}
		return
	}
	// the order of bytes in a network
	id.set = [4]uint32{serviceOf(x), bits.ReverseBytes32(now), bits.ReverseBytes32(s.start),
		bits.ReverseBytes32(firstUserID + (number-1)%((1<<32-firstUserID)/userIDStep)*userIDStep)}
	if from.Service != nil {
		id.set[0] = bits.ReverseBytes32(*from.Service)
	}
}

// serviceOf returns the end of the address at which a request has arrived; 0 for a unix socket.
func serviceOf(x *core.Exchange) uint32 {
	b := x.LocalAddrPort().Addr().AsSlice()
	if len(b) < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(b[len(b)-4:])
}

func hexID(id *[4]uint32) string { return fmt.Sprintf("%08X%08X%08X%08X", id[0], id[1], id[2], id[3]) }

// userIDVariables are the variables of the ID. A subrequest has the ID of the client's request.
func userIDVariables(at core.Slot) map[string]core.KnownVariable {
	of := func(find func(x *core.Exchange, u *userID) *[4]uint32) core.Variable {
		return func(x *core.Exchange) string {
			x = x.Root()
			u, _ := x.ModuleRules(at).(*userID)
			if u == nil {
				return ""
			}
			if id := find(x, u); id != nil && id[3] != 0 {
				return u.name + "=" + hexID(id)
			}
			return ""
		}
	}
	return map[string]core.KnownVariable{
		"uid_got": {Get: of(func(x *core.Exchange, u *userID) *[4]uint32 { return &u.of(x).got })},
		"uid_set": {Get: of(func(x *core.Exchange, u *userID) *[4]uint32 {
			if u.from.Mode == "log" {
				return nil
			}
			id := u.of(x)
			id.make(x, u)
			return &id.set
		})},
		"uid_reset": {Get: core.NoVariable, IsReplaceable: true},
	}
}
