package codec

// Formats is the choice of a format that can be read and written. Config structs embed it. Exactly one member is set.
type Formats struct {
	JSON    *JSON    `yaml:"json" oneof:"format" doc:"JSON text."`
	CSV     *CSV     `yaml:"csv" oneof:"format" doc:"Comma-separated values."`
	KV      *KV      `yaml:"kv" oneof:"format" doc:"Pairs such as a=b c=\"d e\"."`
	Logfmt  *Logfmt  `yaml:"logfmt" oneof:"format" doc:"Pairs as logged by many services; a key without a value is true."`
	LTSV    *LTSV    `yaml:"ltsv" oneof:"format" doc:"Labelled values between tabs, each as label:value."`
	Form    *Form    `yaml:"form" oneof:"format" doc:"HTML form fields and URL queries (application/x-www-form-urlencoded), such as a=1&b=x+y. A repeated field becomes a list."`
	INI     *INI     `yaml:"ini" oneof:"format" doc:"Lines of key=value, in sections."`
	TOML    *TOML    `yaml:"toml" oneof:"format" doc:"One TOML document."`
	Syslog  *Syslog  `yaml:"syslog" oneof:"format" doc:"RFC 5424 and RFC 3164 messages."`
	CEF     *CEF     `yaml:"cef" oneof:"format" doc:"Events in ArcSight's Common Event Format: the fields of the header, and an object extension."`
	YAML    *YAML    `yaml:"yaml" oneof:"format" doc:"One YAML document."`
	XML     *XML     `yaml:"xml" oneof:"format" doc:"XML: attributes become keys with a leading -, text beside them becomes #text, repeated elements become a list."`
	MsgPack *MsgPack `yaml:"msgpack" oneof:"format" doc:"One MessagePack value."`
	CBOR    *CBOR    `yaml:"cbor" oneof:"format" doc:"One CBOR data item (RFC 8949)."`
	Base64  *Base64  `yaml:"base64" oneof:"format" doc:"Bytes as text, four characters for three bytes."`
	Hex     *Hex     `yaml:"hex" oneof:"format" doc:"Bytes as text, two digits for each byte."`
}

// Codec returns the chosen codec, or nil.
func (f *Formats) Codec() Codec {
	switch {
	case f.JSON != nil:
		return f.JSON
	case f.CSV != nil:
		return f.CSV
	case f.KV != nil:
		return f.KV
	case f.Logfmt != nil:
		return f.Logfmt
	case f.LTSV != nil:
		return f.LTSV
	case f.Form != nil:
		return f.Form
	case f.INI != nil:
		return f.INI
	case f.TOML != nil:
		return f.TOML
	case f.Syslog != nil:
		return f.Syslog
	case f.CEF != nil:
		return f.CEF
	case f.YAML != nil:
		return f.YAML
	case f.XML != nil:
		return f.XML
	case f.MsgPack != nil:
		return f.MsgPack
	case f.CBOR != nil:
		return f.CBOR
	case f.Base64 != nil:
		return f.Base64
	case f.Hex != nil:
		return f.Hex
	}
	return nil
}
