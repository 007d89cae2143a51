package sqldb

import (
	"regexp"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// The layouts of types that have no time zone.
var unzoned = map[uint32]string{
	oidTimestamp: "2006-01-02 15:04:05.999999999",
	oidDate:      time.DateOnly,
	oidTime:      "15:04:05.999999999",
}

var (
	// moment matches a date, a time, and what follows the time.
	moment = regexp.MustCompile(`^(\d{4,}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)? ?(.*)$`)
	// offset matches the offset of a time zone.
	offset = regexp.MustCompile(`^(?:[Zz]|([+-]\d\d)(?::?(\d\d))?)$`)
	// era matches what may follow a time and is not a time zone.
	era = regexp.MustCompile(`^(?i)(?:AD|BC|AM|PM)?$`)
)

// inUTC converts a time with a zone to UTC, for a type without a zone. The server would drop the zone without a conversion.
func inUTC(text []byte, layout string) ([]byte, error) {
	m := moment.FindSubmatch(text)
	if m == nil || era.Match(m[4]) {
		return text, nil
	}
	zone := offset.FindSubmatch(m[4])
	if zone == nil {
		return nil, engine.Errorf(engine.Rejected,
			"%.60q has a time zone, which the column does not keep (write the time in UTC, or with an offset such as +02:00)", text)
	}
	seconds, zoneOffset := string(m[3]), "Z"
	if seconds == "" {
		seconds = ":00"
	}
	if len(zone[1]) > 0 {
		minutes := string(zone[2])
		if minutes == "" {
			minutes = "00"
		}
		zoneOffset = string(zone[1]) + ":" + minutes
	}
	t, err := time.Parse(time.RFC3339Nano, string(m[1])+"T"+string(m[2])+seconds+zoneOffset)
	if err != nil {
		return nil, engine.Errorf(engine.Rejected, "%.60q is not a valid time (write it as in 2006-01-02T15:04:05Z)", text)
	}
	return t.UTC().AppendFormat(nil, layout), nil
}
