#!/usr/bin/env python3
"""Computes the cost of a million grabs on AWS: the work of a grab times published prices. Options change both:

    scripts/cost.py
    scripts/cost.py --winner-ms 40 --write-price 0.7125 --node-price 0.2
"""

import argparse

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
    "memory-mb": (512, "the memory of the grab function in MB, as in template.yaml"),
    "winner-ms": (25, "the time of a winning call in ms: one transaction, and some milliseconds around it"),
    "loser-ms": (3, "the time of a losing call in ms: one round trip to Redis, or none"),
    "winner-writes": (6, "write request units of a win: slip decision, claim and wallet, each counted twice in a transaction"),
    "slip-writes": (0.13, "write request units of a slip in a packet of 100: the send's five items, the index, and marking it settled"),
    "loser-reads": (0.01, "read request units of a loss: most are answered without DynamoDB"),
    "nodes": (3, "nodes in the cluster, idle or not"),
}
HOURS_A_MONTH = 730


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
    print(f"\nRedis, under any load: {given.nodes * given.node_price * HOURS_A_MONTH:.2f} a month")


if __name__ == "__main__":
    main()
