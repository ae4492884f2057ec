"""Who may assume the roles that components make: trust policies, the same in every account and region."""

from __future__ import annotations

import json
from typing import Final


def _trust(service: str, *actions: str) -> str:
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"Service": service}, "Action": list(actions)}],
        }
    )


NODES: Final = _trust("ec2.amazonaws.com", "sts:AssumeRole")
# TagSession: the agent puts cluster, namespace and service account on the session, so policies can tell pods apart.
PODS: Final = _trust("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession")
