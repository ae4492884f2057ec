"""What a user wants: models, rules, problems and loading. Imports facts, is imported by the plan, knows no Pulumi."""
