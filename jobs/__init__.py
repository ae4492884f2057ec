"""Job scripts, rendered from the contract, and the runner that submits them and has them judged."""
