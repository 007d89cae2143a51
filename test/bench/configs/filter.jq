select(.status >= 500) | .severity = "critical" | .total_eur = .total * 2
