package schema

// URLs is a config field with one or more URLs. They are secrets, since they may contain passwords.
type URLs []Secret

// UnmarshalConfig decodes a URL or a list of URLs.
func (u *URLs) UnmarshalConfig(d *Decoder, n *Node) {
	if n.Kind == ListNode {
		d.Decode(n, (*[]Secret)(u))
		return
	}
	var one Secret
	d.Decode(n, &one)
	*u = URLs{one}
}

// DescribeConfig describes a text or a list of them.
func (u *URLs) DescribeConfig() *Type { return AnyOf("URL or list of URLs", Secret{}, []Secret(nil)) }
