package schema

// URLs is a config field that holds a URL or a list of URLs. They are secrets, as they may have passwords in them.
type URLs []Secret

// UnmarshalConfig reads a URL or a list of URLs.
func (u *URLs) UnmarshalConfig(d *Decoder, n *Node) {
	if n.Kind == ListNode {
		d.Decode(n, (*[]Secret)(u))
		return
	}
	var one Secret
	d.Decode(n, &one)
	*u = URLs{one}
}

// DescribeConfig is a text or a list of them.
func (u *URLs) DescribeConfig() *Type { return AnyOf("URL or list of URLs", Secret{}, []Secret(nil)) }
