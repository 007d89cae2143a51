{event: .}
