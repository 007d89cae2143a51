package calendar

import (
	"time"
	_ "time/tzdata" // for machines and containers without a database of zones
)

// LoadZone loads a zone by its name, or by an offset such as +02:00. ok is false if there is no such zone.
func LoadZone(name string) (z *time.Location, ok bool) {
	if offset, rest, ok := cutOffset(name); ok && rest == "" {
		return fixedZone(offset), true
	}
	// Names of zones begin with a capital. Other files beside them, such as right/UTC, count leap seconds.
	if name != "" && name != "Local" && len(name) <= 64 && 'A' <= name[0] && name[0] <= 'Z' {
		z, err := time.LoadLocation(name)
		return z, err == nil
	}
	return nil, false
}
