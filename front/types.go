package front

import (
	"cmp"
	"reflect"

	"github.com/tarehq/tare/front/conf"
)

// typesKey identifies mediaTypes within a Config.
type typesKey struct {
	table                      uintptr // address of the map, which does not change within a Config
	defaultType, charset, with string
	isDefault                  bool // with is nil
}

// mediaTypes compiles the types of a location. Equal ones are shared.
func (c *compiler) mediaTypes(f *conf.Files) *mediaTypes {
	table := f.Types
	if table == nil {
		table = c.config.Types
	}
	key := typesKey{reflect.ValueOf(table).Pointer(), cmp.Or(f.DefaultType, "text/plain"), f.Charset,
		joined(f.CharsetTypes), f.CharsetTypes == nil}
	t, _ := shared(c, key, func() (*mediaTypes, error) { return newMediaTypes(f, table, key.defaultType), nil })
	return t
}
