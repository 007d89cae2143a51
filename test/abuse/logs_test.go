package abuse

var logs = []attack{}
