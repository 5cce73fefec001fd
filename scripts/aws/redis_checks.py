"""Checks of Redis: versions, node types, quotas."""

import re

from findings import check
from network_checks import node_type, zones_with_nodes

# Only these families have durability, from Valkey 9.0 on.
DURABLE = ("m7g", "r7g", "m6g", "r6g", "c7gn")
# The version in stacks/state.yaml.
VERSION = "9.0"


@check("redis")
def redis(account):
    kind = account.value("Redis")
    if kind == "existing":
        yield "fine", "the Redis at RedisUrl; preflight does not sign in to it"
        return
    wanted = VERSION
    versions = sorted(
        {
            one["EngineVersion"]
            for one in account.all(
                "elasticache", "describe_cache_engine_versions", "CacheEngineVersions", Engine="valkey"
            )
        }
    )
    known = {re.match(r"\d+\.\d+", one)[0] for one in versions} if versions else set()
    if kind == "serverless":
        known = {one.partition(".")[0] for one in known}
        wanted = wanted.partition(".")[0]
    if wanted not in known:
        yield "fails", f"ElastiCache has no Valkey {wanted} in {account.region}", f"use another region, or in stacks/state.yaml one of: {', '.join(versions) or 'none here'}"
    else:
        yield "fine", f"ElastiCache has Valkey {wanted}"
    if kind == "nodes":
        yield from nodes(account)


def nodes(account):
    type_, family = account.value("RedisNodeType"), node_type(account).partition(".")[0]
    durability = account.value("RedisDurability")
    if durability != "disabled" and family not in DURABLE:
        yield "fails", f"RedisDurability={durability} does not exist on {type_}", f"use a node of {', '.join(DURABLE)}, or set RedisDurability=disabled"
    offered = account.all(
        "elasticache", "describe_reserved_cache_nodes_offerings", "ReservedCacheNodesOfferings", CacheNodeType=type_
    )
    if not zones_with_nodes(account):
        yield "fails", f"{account.region} has no {type_}", "set RedisNodeType to a type that the region has"
    elif next(offered, None) is None:
        # Only a sign: ElastiCache lists the types that it sells reserved nodes of, but not its types.
        yield "look", f"ElastiCache may have no {type_} in {account.region}: it reserves none", "look for it in ElastiCache's console"
    if account.status:
        return
    has = sum(
        of.get("NumCacheNodes", 0) for of in account.all("elasticache", "describe_cache_clusters", "CacheClusters")
    )
    more = int(account.value("RedisShards")) * (1 + int(account.value("RedisReplicas")))
    most = account.quota("elasticache", "L-DFE45DF3")
    if has + more > most:
        yield "fails", f"{more} more nodes don't fit: the region has {has} of {most:.0f}", "raise the quota L-DFE45DF3 (Service Quotas, ElastiCache)"
    else:
        yield "fine", f"{more} nodes of {type_}; the region has {has} of {most:.0f}"
