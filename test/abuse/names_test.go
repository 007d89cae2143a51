package abuse

var names = []attack{}
