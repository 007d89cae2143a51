package abuse

var machine = []attack{}
