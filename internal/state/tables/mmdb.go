package tables

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"sync/atomic"

	"github.com/oschwald/maxminddb-golang/v2"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// networks is one version of a database of networks, in MaxMind's format. The library bounds the size of records.
type networks struct {
	db    *maxminddb.Reader
	bytes int
	made  [1 << 11]atomic.Pointer[record] // by the lowest bits of the offset
}

// record is the value at an offset of a database.
type record struct {
	offset uintptr
	value  any
}

// maxRecord bounds the text of a cached record, in bytes. Up to 2,048 are cached.
const maxRecord = 4 << 10

func openNetworks(c *Config, data []byte) (*networks, error) {
	db, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("the file is not a database in MaxMind's format: %w", err)
	}
	return &networks{db: db, bytes: len(data)}, nil
}

func (n *networks) find(keys []any) (any, error) {
	if len(keys) != 1 {
		return nil, keyCount(1, len(keys))
	}
	text, ok := keys[0].(string)
	if !ok {
		return nil, errors.New("the key is an IP address as text")
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return nil, fmt.Errorf("%s is not an IP address", strconv.Quote(text[:min(len(text), shownKey)]))
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() && n.db.Metadata.IPVersion == 4 {
		return nil, nil
	}
	found := n.db.Lookup(ip)
	if !found.Found() {
		return nil, found.Err()
	}
	place := &n.made[found.Offset()%uintptr(len(n.made))]
	if r := place.Load(); r != nil && r.offset == found.Offset() {
		return r.value, nil
	}
	var raw any
	if err := found.Decode(&raw); err != nil {
		return nil, fmt.Errorf("the record of %s: %w", ip, err)
	}
	v, size, err := valueOf(raw)
	if err != nil {
		return nil, fmt.Errorf("the record of %s: %w", ip, err)
	}
	if size <= maxRecord {
		place.Store(&record{found.Offset(), v})
	}
	return v, nil
}

func (n *networks) size() (rows int, bytes schema.Size) { return 0, schema.Size(n.bytes) }

// valueOf converts a value of a database for expressions. size is roughly the length of its text.
func valueOf(v any) (value any, size int, err error) {
	size = 8
	switch v := v.(type) {
	case nil, bool, int:
		return v, size, nil
	case string:
		return v, size + len(v), nil
	case int32:
		return int(v), size, nil
	case uint16:
		return int(v), size, nil
	case uint32:
		return int(v), size, nil
	case uint64:
		return whole(new(big.Int).SetUint64(v)), size, nil
	case *big.Int:
		return whole(v), size, nil
	case float32:
		return number(float64(v))
	case float64:
		return number(v)
	case []byte:
		return base64.StdEncoding.EncodeToString(v), size + 2*len(v), nil
	case []any:
		for i := range v {
			made, n, err := valueOf(v[i])
			if err != nil {
				return nil, 0, err
			}
			v[i], size = made, size+n
		}
		return v, size, nil
	case map[string]any:
		for key, e := range v {
			made, n, err := valueOf(e)
			if err != nil {
				return nil, 0, err
			}
			v[key], size = made, size+len(key)+n
		}
		return v, size, nil
	}
	return nil, 0, fmt.Errorf("it has a value of type %T, which a message can't contain", v)
}

func whole(i *big.Int) any {
	if i.IsInt64() {
		return int(i.Int64())
	}
	return doc.Number(i.String())
}

func number(f float64) (any, int, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, 0, fmt.Errorf("it has the number %v, which a message can't contain", f)
	}
	return f, 8, nil
}
