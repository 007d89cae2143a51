package codec

// Formats is the choice of a format that can be read and written, and a part of
// config structs: exactly one member is set.
type Formats struct {
	JSON   *JSON   `yaml:"json" oneof:"format" doc:"JSON text."`
	CSV    *CSV    `yaml:"csv" oneof:"format" doc:"Comma-separated values."`
	KV     *KV     `yaml:"kv" oneof:"format" doc:"Pairs such as a=b c=\"d e\"."`
	Logfmt *Logfmt `yaml:"logfmt" oneof:"format" doc:"Pairs as many services log them; a key without a value is true."`
	YAML   *YAML   `yaml:"yaml" oneof:"format" doc:"One YAML document."`
	XML    *XML    `yaml:"xml" oneof:"format" doc:"XML: attributes are keys with a -, text beside them is #text, repeated elements are a list."`
	Base64 *Base64 `yaml:"base64" oneof:"format" doc:"Bytes as text, four characters for three bytes."`
	Hex    *Hex    `yaml:"hex" oneof:"format" doc:"Bytes as text, two digits for each byte."`
}

// Codec is the chosen one, or nil.
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
	case f.YAML != nil:
		return f.YAML
	case f.XML != nil:
		return f.XML
	case f.Base64 != nil:
		return f.Base64
	case f.Hex != nil:
		return f.Hex
	}
	return nil
}
