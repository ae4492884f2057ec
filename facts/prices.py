"""What things cost: On-Demand list prices in USD, for the estimate in the README and in `make plan`. Never a bill.

Sources. Instances: AWS price list for us-east-1 of 2026-07-20, as karpenter-provider-aws carries it
(pkg/providers/pricing/zz_generated.pricing_aws.go). us-west-2 is given the same prices: AWS has listed both regions
alike for these families, but that list was not read. Everything in `SERVICES`: commonly quoted us-east-1 list prices,
not looked up. p5e.48xlarge has no On-Demand price there (sold as Capacity Blocks). Capacity reservations cost the
On-Demand price from the moment they exist, used or not; Capacity Blocks have prices of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

PRICES_DATE: Final = "2026-07-20"
PRICED_REGIONS: Final = ("us-east-1", "us-west-2")
HOURS_PER_MONTH: Final = 730

INSTANCE_USD_PER_HOUR: Final[Mapping[str, float]] = MappingProxyType(
    {
        "g5.xlarge": 1.006,
        "g5.2xlarge": 1.212,
        "g5.4xlarge": 1.624,
        "g5.8xlarge": 2.448,
        "g5.12xlarge": 5.672,
        "g5.16xlarge": 4.096,
        "g5.24xlarge": 8.144,
        "g5.48xlarge": 16.288,
        "g6.xlarge": 0.8048,
        "g6.2xlarge": 0.9776,
        "g6.4xlarge": 1.3232,
        "g6.8xlarge": 2.0144,
        "g6.12xlarge": 4.6016,
        "g6.16xlarge": 3.3968,
        "g6.24xlarge": 6.6752,
        "g6.48xlarge": 13.3504,
        "gr6.4xlarge": 1.5392,
        "gr6.8xlarge": 2.4464,
        "g6e.xlarge": 1.861,
        "g6e.2xlarge": 2.2421,
        "g6e.4xlarge": 3.0042,
        "g6e.8xlarge": 4.5286,
        "g6e.12xlarge": 10.4926,
        "g6e.16xlarge": 7.5772,
        "g6e.24xlarge": 15.0656,
        "g6e.48xlarge": 30.1312,
        "g7e.2xlarge": 3.3631,
        "g7e.4xlarge": 3.9982,
        "g7e.8xlarge": 5.2682,
        "g7e.12xlarge": 8.2861,
        "g7e.24xlarge": 16.5722,
        "g7e.48xlarge": 33.1443,
        "p4d.24xlarge": 21.9576,
        "p4de.24xlarge": 27.4471,
        "p5.4xlarge": 6.88,
        "p5.48xlarge": 55.04,
        "p5en.48xlarge": 63.296,
        "p6-b200.48xlarge": 113.9328,
        "p6-b300.48xlarge": 142.416,
        "m6i.xlarge": 0.192,
        "m6i.2xlarge": 0.384,
        "m6i.4xlarge": 0.768,
        "m6i.8xlarge": 1.536,
        "m6i.12xlarge": 2.304,
        "m6i.16xlarge": 3.072,
        "m7i.xlarge": 0.2016,
        "m7i.2xlarge": 0.4032,
        "m7i.4xlarge": 0.8064,
        "m7i.8xlarge": 1.6128,
        "m7i.12xlarge": 2.4192,
        "m7i.16xlarge": 3.2256,
        "m7a.xlarge": 0.2318,
        "m7a.2xlarge": 0.4637,
        "m7a.4xlarge": 0.9274,
        "m7a.8xlarge": 1.8547,
        "m7a.12xlarge": 2.7821,
        "m7a.16xlarge": 3.7094,
        "c7i.xlarge": 0.1785,
        "c7i.2xlarge": 0.357,
        "c7i.4xlarge": 0.714,
        "c7i.8xlarge": 1.428,
        "c7i.12xlarge": 2.142,
        "c7i.16xlarge": 2.856,
        "r7i.xlarge": 0.2646,
        "r7i.2xlarge": 0.5292,
        "r7i.4xlarge": 1.0584,
        "r7i.8xlarge": 2.1168,
        "r7i.12xlarge": 3.1752,
        "r7i.16xlarge": 4.2336,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """USD; `_gib_month` per GiB and month. rds: one instance; Multi-AZ is twice that."""

    eks_cluster_per_hour: float
    nat_gateway_per_hour: float
    nat_gateway_per_gb: float
    interface_endpoint_per_zone_hour: float
    network_load_balancer_per_hour: float
    public_ipv4_per_hour: float
    gp3_gib_month: float
    gp3_iops_month_above_3000: float
    gp3_mibps_month_above_125: float
    efs_standard_gib_month: float
    efs_elastic_read_per_gb: float
    efs_elastic_write_per_gb: float
    rds_gp3_gib_month: float
    rds_per_hour: Mapping[str, float]


SERVICES: Final = Services(
    eks_cluster_per_hour=0.10,
    nat_gateway_per_hour=0.045,
    nat_gateway_per_gb=0.045,
    interface_endpoint_per_zone_hour=0.01,
    network_load_balancer_per_hour=0.0225,
    public_ipv4_per_hour=0.005,
    gp3_gib_month=0.08,
    gp3_iops_month_above_3000=0.005,
    gp3_mibps_month_above_125=0.04,
    efs_standard_gib_month=0.30,
    efs_elastic_read_per_gb=0.03,
    efs_elastic_write_per_gb=0.06,
    rds_gp3_gib_month=0.115,
    rds_per_hour=MappingProxyType({"db.m7g.large": 0.168, "db.m7g.xlarge": 0.337, "db.m7g.2xlarge": 0.674}),
)
