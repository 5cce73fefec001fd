"""Checks of the network: the stack's own, or an existing one."""

from findings import absent, check

# Lambda attaches no function to a subnet in these zones, and says so only when the function is created.
WITHOUT_LAMBDA = {"use1-az3"}
# The stack needs the network in so many zones.
ZONES = 3


@check("network")
def network(account):
    if account.value("VpcId"):
        yield from existing_network(account)
        return
    yield "fine", "the stack's own network"
    if account.status:
        return
    vpcs = sum(1 for _ in account.all("ec2", "describe_vpcs", "Vpcs"))
    most = account.quota("vpc", "L-F678F1CE")
    if vpcs >= most:
        yield "fails", f"the region has {vpcs} VPCs of {most:.0f}", "raise the quota L-F678F1CE (Service Quotas, Amazon VPC), or set VpcId and SubnetIds of an existing one"
    else:
        yield "fine", f"{vpcs} VPCs of {most:.0f}"
    gateways = endpoints(account, {"Name": "vpc-endpoint-type", "Values": ["Gateway"]})
    most = account.quota("vpc", "L-1B52E74A")
    if len(gateways) >= most:
        yield "fails", f"the region has {len(gateways)} gateway endpoints of {most:.0f}", "raise the quota L-1B52E74A (Service Quotas, Amazon VPC)"


def endpoints(account, *filters):
    found = account.all("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=list(filters))
    return [one for one in found if one["State"].lower() not in ("deleting", "deleted")]


def existing_network(account):
    ec2, vpc = account.client("ec2"), account.value("VpcId")
    if not absent(lambda: ec2.describe_vpcs(VpcIds=[vpc]), "InvalidVpcID.NotFound"):
        yield "fails", f"VpcId={vpc} does not exist in {account.region}", "set an existing VpcId, or leave it empty"
        return
    ids = [one.strip() for one in account.value("SubnetIds").split(",") if one.strip()]
    found = absent(lambda: ec2.describe_subnets(SubnetIds=ids), "InvalidSubnetID.NotFound") if ids else None
    subnets = [one for one in found["Subnets"] if one["VpcId"] == vpc] if found else []
    zones = sorted({one["AvailabilityZone"] for one in subnets})
    if len(subnets) < max(len(ids), 1):
        yield "fails", f"SubnetIds={','.join(ids)}: {len(subnets)} of them are in {vpc}", f"set subnets of {vpc}"
    elif len(zones) < 2:
        yield "fails", f"SubnetIds lie in one zone ({', '.join(zones)}); replicas need another", "set subnets in two or three zones"
    else:
        yield "fine", f"{vpc} with {len(subnets)} subnets in {', '.join(zones)}"
    to_the_table = {"Name": "service-name", "Values": [f"com.amazonaws.{account.region}.dynamodb"]}
    if not endpoints(account, {"Name": "vpc-id", "Values": [vpc]}, to_the_table):
        yield "look", f"{vpc} has no endpoint for DynamoDB: without a NAT, no function reaches the table", "add a gateway endpoint for DynamoDB to its route tables"


def zones_of_the_stack(account):
    """The zones of the three subnets, as `(name, id)`: those of the parameters, or the first of `Fn::GetAZs`, which lists
    zones with a default subnet, or all if there is none."""
    found = account.client("ec2").describe_availability_zones(
        Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}]
    )
    ids = {one["ZoneName"]: one.get("ZoneId", "") for one in found["AvailabilityZones"] if one["State"] == "available"}
    named = [one.strip() for one in account.value("Zones").split(",") if one.strip()]
    if named:
        return [(name, ids.get(name)) for name in named], ids
    subnets = account.all(
        "ec2", "describe_subnets", "Subnets", Filters=[{"Name": "default-for-az", "Values": ["true"]}]
    )
    with_default = {one["AvailabilityZone"] for one in subnets}
    return [(name, ids[name]) for name in sorted(ids) if not with_default or name in with_default][:ZONES], ids


@check("zones")
def zones(account):
    if account.value("VpcId") or account.status:
        yield "fine", "the network exists already"
        return
    chosen, available = zones_of_the_stack(account)
    names = ", ".join(name for name, _ in chosen)
    usable = usable_zones(account, available)
    mend = f"set Zones to three of: {', '.join(usable)}"
    if len(usable) < ZONES:
        mend = f"only {', '.join(usable) or 'none'} would do: use another region, or another RedisNodeType"
    if len(chosen) < ZONES:
        kind = "zones with a default subnet" if len(available) >= ZONES else "zones"
        source = (
            f"Zones names {len(chosen)} zones"
            if account.value("Zones")
            else f"{account.region} has {len(chosen)} {kind}"
        )
        yield "fails", f"{source} ({names}); the stack's network needs {ZONES}", mend
    unknown = [name for name, id_ in chosen if id_ is None]
    without = [f"{name} ({id_})" for name, id_ in chosen if id_ in WITHOUT_LAMBDA]
    nodes = zones_with_nodes(account)
    lacking = [name for name, _ in chosen if nodes is not None and name not in nodes and name not in unknown]
    if unknown:
        yield "fails", f"Zones has {', '.join(unknown)}, which this account does not have in {account.region}", mend
    if without:
        yield "fails", f"Lambda has no functions in {', '.join(without)}", mend
    if lacking:
        yield "fails", f"{', '.join(lacking)} has no {node_type(account)}, so Redis can't have a node there", mend
    if len(chosen) >= ZONES and not (unknown or without or lacking):
        yield "fine", f"the stack's subnets lie in {names}"


def node_type(account):
    return account.value("RedisNodeType").removeprefix("cache.")


def zones_with_nodes(account):
    """The zones that have the node type as an EC2 instance; ElastiCache has no such list. `None`: without nodes."""
    if account.value("Redis") != "nodes":
        return None
    return {
        one["Location"]
        for one in account.all(
            "ec2",
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [node_type(account)]}],
        )
    }


def usable_zones(account, available):
    nodes = zones_with_nodes(account)
    return [
        name
        for name, id_ in sorted(available.items())
        if id_ not in WITHOUT_LAMBDA and (nodes is None or name in nodes)
    ]
