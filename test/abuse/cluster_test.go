package abuse

var cluster = []attack{}
