package abuse

var configurations = []attack{}
