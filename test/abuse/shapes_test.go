package abuse

var shapes = []attack{}
