"""What the rule model understands: which tool a sentence means, its slots over several turns, small talk and orders."""
