package sources

// Exported for tests of IDs.
const (
	Crockford      = crockford
	Base62         = base62
	KSUIDEpoch     = ksuidEpoch
	SnowflakeEpoch = snowflakeEpoch
)

var (
	ULIDText  = ulidText
	KSUIDText = ksuidText
	UUIDText  = uuidText
	Snowflake = snowflake
)
