#!/usr/bin/env python3
"""Computes the cost of a million grabs on AWS, and the resources for a load, from the work of a grab and published prices.

Both inputs are printed, and options change them:

    scripts/cost.py
    scripts/cost.py --winner-ms 40 --write-price 0.7125 --node-price 0.2
"""

import argparse
import math

# Prices in US dollars, us-east-1, from the services' pricing pages of 2025. API Gateway: HTTP APIs, the first 300 million a
# month. Lambda on arm64, DynamoDB on demand, ElastiCache for Valkey.
PRICES = {
    "api-price": (1.00, "a million requests of an HTTP API"),
    "request-price": (0.20, "a million invocations of Lambda"),
    "gb-second-price": (0.0000133334, "a GB-second of Lambda on arm64"),
    "write-price": (0.625, "a million write request units of DynamoDB"),
    "read-price": (0.125, "a million read request units"),
    "node-price": (0.1264, "an hour of a cache.m7g.large node with Valkey"),
}
WORK = {
    "memory-mb": (512, "MB of the grab function, as in template.yaml"),
    "winner-ms": (25, "ms of a winning call (assumed): one transaction and some milliseconds"),
    "loser-ms": (3, "ms of a losing call (assumed): at most one round trip to Redis"),
    "winner-writes": (6, "write request units of a win: slip decision, claim and wallet, two each in a transaction"),
    "slip-writes": (0.13, "write request units of a slip: its share of the send, index and settlement of a packet of 100"),
    "loser-reads": (0.01, "read request units of a loss (assumed): most losers are answered without DynamoDB"),
    "nodes": (3, "nodes of the Redis cluster, idle or not"),
    "shard-grabs": (50_000, "grabs a second that one Redis shard is planned for, one user a call"),
}
HOURS_A_MONTH = 730
# Loads to size for: grabs a second, and how many of them win.
LOADS = [(1_000, 1_000), (100_000, 5_000), (1_000_000, 20_000)]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, (value, meaning) in (PRICES | WORK).items():
        parser.add_argument(f"--{name}", type=float, default=value, help=f"{meaning} (default: {value})")
    return parser.parse_args()


def million(given, milliseconds, writes, reads):
    """The parts of the cost of a million calls, in dollars."""
    seconds = milliseconds / 1000 * given.memory_mb / 1024
    return {
        "API Gateway": given.api_price,
        "Lambda": given.request_price + seconds * given.gb_second_price * 1e6,
        "DynamoDB": writes * given.write_price + reads * given.read_price,
    }


def main():
    given = arguments()
    for name, (_, meaning) in (PRICES | WORK).items():
        print(f"{getattr(given, name.replace('-', '_')):>12g}  {meaning}")
    winners = million(given, given.winner_ms, given.winner_writes + given.slip_writes, 0)
    losers = million(given, given.loser_ms, 0, given.loser_reads)
    print(f"\n{'a million':<12}{'wins':>10}{'losses':>10}")
    for part in winners:
        print(f"{part:<12}{winners[part]:>10.2f}{losers[part]:>10.2f}")
    print(f"{'together':<12}{sum(winners.values()):>10.2f}{sum(losers.values()):>10.2f}")
    print(f"\nRedis, busy or idle: {given.nodes * given.node_price * HOURS_A_MONTH:.2f} a month")

    print(f"\n{'grabs/s':>10}{'won/s':>10}{'executions':>12}{'shards':>8}{'write units/s':>15}")
    for grabs, won in LOADS:
        executions = math.ceil(((grabs - won) * given.loser_ms + won * given.winner_ms) / 1000)
        shards, writes = math.ceil(grabs / given.shard_grabs), math.ceil(won * given.winner_writes)
        print(f"{grabs:>10,}{won:>10,}{executions:>12,}{shards:>8}{writes:>15,}")


if __name__ == "__main__":
    main()
