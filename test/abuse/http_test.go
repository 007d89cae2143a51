package abuse

var httpClients = []attack{}
