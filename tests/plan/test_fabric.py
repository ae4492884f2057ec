"""The NCCL and libfabric variables of each family: seven where there is no GPUDirect RDMA, next to none where there
is."""

from __future__ import annotations

import pytest

from facts.hardware import INSTANCE_TYPES
from plan.fabric import job_environment

ALWAYS = {"NCCL_SOCKET_IFNAME", "NCCL_DEBUG"}


@pytest.mark.parametrize("instance_type", ["g5.12xlarge", "g5.48xlarge", "g6.12xlarge", "g6.48xlarge", "g6e.48xlarge"])
def test_several_gpus_without_rdma_and_nvlink_get_the_seven_variables(instance_type: str) -> None:
    assert job_environment(INSTANCE_TYPES[instance_type], efa=True) == {
        "FI_PROVIDER": "efa",
        "FI_EFA_USE_DEVICE_RDMA": "0",
        "FI_EFA_FORK_SAFE": "1",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_PROTO": "simple",
        "NCCL_SOCKET_IFNAME": "^lo,docker",
        "NCCL_DEBUG": "INFO",
    }


@pytest.mark.parametrize("instance_type", sorted(n for n, h in INSTANCE_TYPES.items() if h.gdr))
def test_families_with_rdma_get_nothing_that_would_turn_it_off(instance_type: str) -> None:
    assert job_environment(INSTANCE_TYPES[instance_type], efa=True).keys() == ALWAYS


def test_without_efa_nothing_asks_for_its_provider() -> None:
    environment = job_environment(INSTANCE_TYPES["g6.12xlarge"], efa=False)
    assert environment.keys() == ALWAYS | {"NCCL_P2P_DISABLE"}


def test_a_single_gpu_has_no_peer_to_disable() -> None:
    assert "NCCL_P2P_DISABLE" not in job_environment(INSTANCE_TYPES["g6.8xlarge"], efa=True)


def test_no_family_gets_a_variable_that_the_plugins_authors_say_never_to_set() -> None:
    for hardware in INSTANCE_TYPES.values():
        names = job_environment(hardware, efa=True).keys()
        assert not names & {"NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS", "RDMAV_FORK_SAFE", "RDMAV_HUGEPAGES_SAFE"}
