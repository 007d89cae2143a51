package abuse

var callingOut = []attack{}
