package migrate

import "slices"

// Routes are tried in order, and the first that does not pass messages on ends it. These functions nest routes.

// complete makes each message end in one of the routes: what a strict switch does not take fails.
func complete(routes []route) []route {
	if slices.ContainsFunc(routes, func(r route) bool { return r.match == "" && !r.more }) {
		return routes
	}
	others := ""
	goesOn, taken := false, false
	for _, r := range routes {
		goesOn, taken = goesOn || r.more, taken || r.match == ""
		others = except(others, r.match)
	}
	routes = slices.Clone(routes)
	if !taken {
		failed := route{name: unmatched, end: toFailure}
		if goesOn {
			failed.when(others)
		}
		routes = append(routes, failed)
	}
	if goesOn {
		routes = append(routes, route{name: unmatched, end: toNowhere})
	}
	return routes
}

// goingOn makes all routes pass messages on, while each message takes the same routes as before. all keeps those that
// lead nowhere.
func goingOn(routes []route, all bool) []route {
	var done []route
	others := ""
	for _, r := range complete(routes) {
		match, last := r.match, !r.more
		switch {
		case match == "":
			r.when(others)
		case others != "":
			r.when(brackets(match) + " and " + others)
		}
		if last && match != "" {
			others = except(others, match)
		}
		r.more = true
		if all || r.end != toNowhere {
			done = append(done, r)
		}
		if last && match == "" {
			break
		}
	}
	return done
}

// longest bounds a condition: those of nested switches could exhaust the memory.
const longest = 32 << 10

// when adds a condition to a route, or marks it as too long to write.
func (r *route) when(condition string) {
	if len(condition) > longest {
		r.long, condition = true, ""
	}
	r.match = condition
}

// under restricts routes to a condition.
func under(condition string, routes []route) []route {
	routes = slices.Clone(routes)
	for i, r := range routes {
		routes[i].when(both(condition, r.match))
	}
	return routes
}

// both returns the conjunction of two conditions; "" is always true.
func both(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return brackets(a) + " and " + brackets(b)
}

// except adds to a condition that another one is false.
func except(condition, other string) string {
	if len(condition) > longest || other == "" {
		return condition
	}
	if condition != "" {
		condition += " and "
	}
	return condition + "not " + brackets(other)
}
