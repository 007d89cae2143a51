package abuse

var disclosures = []attack{}
