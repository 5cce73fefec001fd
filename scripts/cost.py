#!/usr/bin/env python3
"""Computes what grabs cost on AWS from the work of a grab and published prices, which scripts/cost.json lists.

All inputs are printed, and options change them. Bytes of log lines were measured on what the functions print.

    scripts/cost.py
    scripts/cost.py --winner-ms 40 --write-price 0.7125
    scripts/cost.py --serverless 0 --node-price 0.2
    scripts/cost.py --page 1
    scripts/cost.py --alb 1
    scripts/cost.py --month-users 200000
    scripts/cost.py --page 1 --web-acl 1
    scripts/cost.py --chart docs/images/cost.svg
"""

import argparse
import json
import math
import pathlib

# Of the prices, as in the example of docs/DEPLOY.md.
REGION = "us-east-1"
# Prices in US dollars, from the services' pricing pages of 2025 and 2026. API Gateway: HTTP APIs, the first 300 million a month.
# Lambda on arm64, DynamoDB on demand. ElastiCache for Valkey, https://aws.amazon.com/elasticache/pricing/; what counts as ECPUs and
# their limits, https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/RedisConfiguration.html. Cognito,
# https://aws.amazon.com/cognito/pricing/. AWS WAF, https://aws.amazon.com/waf/pricing/; KMS, https://aws.amazon.com/kms/pricing/. Then the work of a request, a rush, and a month of small groups. `hongbao-admin plan`
# reads the same file.
INPUTS = {
    name: (value, meaning)
    for inputs in json.loads((pathlib.Path(__file__).parent / "cost.json").read_text()).values()
    for name, (value, meaning) in inputs.items()
}
HOURS_A_MONTH, MINUTES_A_MONTH, DAYS_A_MONTH = 730, 43_800, 30
SECONDS_A_MONTH = 3_600 * HOURS_A_MONTH
READ_BYTES = 4_096
# DynamoDB keeps a table's key for so long.
KEY_KEPT_MINUTES = 5
CLAIMS_OF_LARGE_LEDGER = 1_000_000_000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, (value, meaning) in INPUTS.items():
        parser.add_argument(f"--{name}", type=float, default=value, help=f"{meaning} (default: {value})")
    parser.add_argument("--json", action="store_true", help="print inputs and results as JSON")
    parser.add_argument("--chart", type=pathlib.Path, help="draw a million of each kind into this SVG file")
    return parser.parse_args()


def request(given, milliseconds, writes, reads, logs, ecpus, redis_writes=0, writes_redis_bytes=0):
    """The parts of the cost of one request, in dollars. `logs` are the bytes of each of its lines in the function's log."""
    sync = 0 if given.serverless else given.sync
    milliseconds += sync * redis_writes * given.sync_ms
    seconds = milliseconds / 1000 * given.memory_mb / 1024
    logged = sum(logs) + given.platform_log
    # A load balancer has no access log in CloudWatch.
    accessed = 0 if given.alb else given.access_log + given.event_bytes
    between_zones = given.zone_bytes * (given.zones - 1) / given.zones
    out = given.answer_bytes / 1e9
    return {
        "API Gateway": 0 if given.alb else given.api_price / 1e6,
        "load balancer, by use": given.alb * capacity_units(given) * given.lcu_price,
        "Lambda": given.request_price / 1e6 + seconds * given.gb_second_price,
        "DynamoDB": (writes * given.write_price + reads * given.read_price) / 1e6,
        "logs": (logged + accessed) * (given.log_price + given.kept_log_price) / 1e9,
        "Redis, by use": given.serverless * ecpus * given.ecpu_price / 1e6 + sync * writes_redis_bytes * given.sync_price / 1e9,
        "data": between_zones * given.zone_price / 1e9 + (0 if given.page else out * given.out_price),
        "page": given.edge_price / 1e6 + out * given.edge_out_price if given.page else 0,
        "web ACL": given.web_acl * given.web_acl_request_price / 1e6,
    }


def capacity_units(given):
    """The hours of a load balancer's LCU that a request takes. The dimension that takes most is paid."""
    connections = 1 / given.connection_requests / given.lcu_connections / 3600
    return max(connections, (given.question_bytes + given.answer_bytes) / given.lcu_bytes)


def requests(given):
    """The cost of one request of each kind."""
    line = lambda size, share=1: (size + given.event_bytes) / share
    one_line = [line(given.request_log)]
    return {
        "wins": request(
            given,
            given.winner_ms,
            given.winner_writes,
            0,
            [line(given.win_log), line(given.win_metrics)],
            given.win_ecpus,
            given.sync_writes,
            given.sync_bytes,
        ),
        "losses": request(
            given,
            given.loser_ms,
            0,
            given.loser_reads,
            [line(given.loss_log), line(given.loss_metrics, given.losses_a_line)],
            given.loss_ecpus,
        ),
        # With a packet's settlement.
        "sends": request(
            given, given.send_ms, given.packet_writes, given.send_reads, one_line, given.packet_ecpus, 1, given.sync_bytes
        ),
        "views": request(given, given.view_ms, 0, given.view_reads, one_line, given.view_ecpus),
    }


def redis_at_rest(given):
    """What a month of each kind of Redis costs without a request."""
    return {
        "serverless": given.serverless_gb * given.serverless_price * HOURS_A_MONTH,
        "nodes": given.nodes * given.node_price * HOURS_A_MONTH,
    }


def redis_alike(given):
    """Losing grabs a second, all month, with which nodes cost as much as ElastiCache Serverless."""
    rest = redis_at_rest(given)
    return (rest["nodes"] - rest["serverless"]) / given.ecpu_price * 1e6 / SECONDS_A_MONTH / given.loss_ecpus


def at_rest(given):
    """What a month costs without a request."""
    run = given.settle_ms / 1000 * given.memory_mb / 1024 * given.gb_second_price + given.request_price / 1e6
    run += given.settle_log * (given.log_price + given.kept_log_price) / 1e9
    minute = given.settle_runs * run + given.settle_reads * given.read_price / 1e6
    minute += given.serverless * given.settle_ecpus * given.ecpu_price / 1e6
    return {
        "load balancer": given.alb * balancer_at_rest(given),
        "Redis": redis_at_rest(given)["serverless" if given.serverless else "nodes"],
        "metrics, alarms, dashboard": watching(given),
        "settle": MINUTES_A_MONTH * minute,
        "KMS": given.kms_callers * MINUTES_A_MONTH / KEY_KEPT_MINUTES * given.kms_price / 1e6 + given.own_key * given.key_price,
        "endpoint": given.tickets * given.zones * given.endpoint_price * HOURS_A_MONTH,
        "web ACL, its rules": given.web_acl * (given.web_acl_price + given.web_acl_rules * given.web_acl_rule_price),
    }


def balancer_at_rest(given):
    """A load balancer's month, with its public addresses."""
    return (given.alb_price + given.zones * given.address_price) * HOURS_A_MONTH


def watching(given):
    """A month of metrics, alarms and the dashboard. A metric is paid for the hours in which it is written."""
    metrics = given.metrics + given.audit_metrics * DAYS_A_MONTH / HOURS_A_MONTH
    watched = given.alarm_metrics + given.alb * given.alarm_metrics_alb
    watched += given.alarm_metrics_serverless if given.serverless else given.nodes * given.alarm_metrics_node
    return metrics * given.metric_price + watched * given.alarm_price + given.dashboard_price


def pool(given):
    """What the users of a month cost in the stack's pool."""
    many = max(0, given.month_users - given.many_users)
    return max(0, given.month_users - many - given.users_free) * given.user_price + many * given.many_users_price


def times(counts, of):
    """The sum of some requests of each kind, part by part."""
    return {part: sum(count * of[kind][part] for kind, count in counts.items()) for part in of["wins"]}


def first_visits(given, count):
    """What the page's files cost."""
    return given.page * count * (given.page_requests * given.edge_price / 1e6 + given.page_bytes * given.edge_out_price / 1e9)


def entrances(given):
    """A million losses through either entrance, a load balancer's month, and the requests of a month for which it is cheaper."""
    either = [argparse.Namespace(**{**vars(given), "alb": alb}) for alb in (0, 1)]
    api, alb = (1e6 * sum(requests(one)["losses"].values()) for one in either)
    month = balancer_at_rest(given)
    return api, alb, month, month / (api - alb)


def audit(given, claims):
    """One audit of a ledger with so many claims: a consistent scan of the whole table."""
    return claims * given.claim_bytes / READ_BYTES * given.read_price / 1e6


def table(title, columns, digits=2):
    """A table of sums in dollars, with a row for each part."""
    print(f"\n{title:<28}" + "".join(f"{name:>12}" for name in columns))
    for part in next(iter(columns.values())):
        if any(column[part] for column in columns.values()):
            print(f"{part:<28}" + "".join(f"{column[part]:>12.{digits}f}" for column in columns.values()))
    print(f"{'together':<28}" + "".join(f"{sum(column.values()):>12.{digits}f}" for column in columns.values()))


# A color for each part, also for readers who see no red or no green (the palette of Okabe and Ito).
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#999999")
NAMES_WIDTH, BAR_WIDTH, ROW = 90, 560, 34


def chart(columns):
    """An SVG with a bar for each kind of request, of the parts of its cost in dollars a million."""
    most = max(sum(parts.values()) for parts in columns.values())
    shown = [part for part in columns["wins"] if any(parts[part] >= 0.01 for parts in columns.values())]
    width, height = NAMES_WIDTH + BAR_WIDTH + 90, 74 + ROW * len(columns)
    text = lambda x, y, words, more="": f'<text x="{x:.0f}" y="{y:.0f}" {more}>{words}</text>'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="14">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(width / 2, 24, "A million requests on AWS, in dollars", 'text-anchor="middle" font-size="16"'),
    ]
    for row, (kind, parts) in enumerate(columns.items()):
        x, y = float(NAMES_WIDTH), 40 + ROW * row
        lines.append(text(x - 8, y + 17, kind, 'text-anchor="end"'))
        for part, color in zip(shown, COLORS):
            size = parts[part] / most * BAR_WIDTH
            lines.append(f'<rect x="{x:.1f}" y="{y}" width="{size:.1f}" height="24" fill="{color}"/>')
            x += size
        lines.append(text(x + 8, y + 17, f"${sum(parts.values()):.2f}"))
    x, y = float(NAMES_WIDTH), height - 14
    for part, color in zip(shown, COLORS):
        lines.append(f'<rect x="{x:.0f}" y="{y - 11}" width="12" height="12" fill="{color}"/>')
        lines.append(text(x + 17, y, part))
        x += 40 + 8.4 * len(part)
    return "\n".join([*lines, "</svg>\n"])


def main():
    given = arguments()
    of = requests(given)
    rush_wins = min(given.rush_slips, given.rush_requests)
    rush = times({"wins": rush_wins, "losses": given.rush_requests - rush_wins, "sends": 1}, of)
    rush["page"] += first_visits(given, given.rush_requests)
    packets, users = given.month_packets, given.group_users
    wins = min(given.group_slips, users)
    counts = {"wins": wins, "losses": users - wins, "sends": 1, "views": given.group_views * users}
    month = times({kind: count * packets for kind, count in counts.items()}, of)
    month["DynamoDB"] += packets * (given.group_slips - wins) * given.refund_writes * given.write_price / 1e6
    month["page"] += first_visits(given, given.month_visitors)
    kept = packets * wins * given.claim_bytes / 1e9
    daily = DAYS_A_MONTH * audit(given, packets * wins)
    month |= {"the table, kept": kept * given.table_price, "point-in-time recovery": kept * given.recovery_price}
    month |= {"metrics of grabs": given.grab_metrics * given.metric_price}
    month |= {"the audit, daily": daily, "the user pool": pool(given), **at_rest(given)}
    grab_log = {
        "wins": given.win_log + given.win_metrics + 2 * given.event_bytes,
        "losses": given.loss_log + given.event_bytes + (given.loss_metrics + given.event_bytes) / given.losses_a_line,
    }
    grab_log = {kind: size + given.access_log + given.event_bytes + given.platform_log for kind, size in grab_log.items()}
    millions = {kind: {part: cost * 1e6 for part, cost in parts.items()} for kind, parts in of.items()}
    # A packet's share in a win depends on its size.
    for kind, slips in ("100 slips", given.rush_slips), ("10 slips", given.group_slips):
        millions[f"of {kind}"] = {part: cost + of["sends"][part] * 1e6 / slips for part, cost in millions["wins"].items()}
    large = audit(given, CLAIMS_OF_LARGE_LEDGER)
    kinds = {kind: millions[kind] for kind in ("wins", "losses", "sends", "views")}
    if given.chart:
        given.chart.write_text(chart(kinds))
        return
    if given.json:
        values = {name: getattr(given, name.replace("-", "_")) for name in INPUTS}
        inputs = {name: int(value) if float(value).is_integer() else value for name, value in values.items()}
        cents = {kind: math.ceil(100 * sum(parts.values())) for kind, parts in millions.items()}
        logs = {kind: math.ceil(size) for kind, size in grab_log.items()}
        sums = {"at rest": sum(at_rest(given).values()), "rush": sum(rush.values()), "month": sum(month.values())}
        sums |= {"watching": watching(given), "user pool": pool(given), "KMS": at_rest(given)["KMS"]}
        sums |= dict(zip(("losses, api", "losses, alb", "load balancer", "load balancer pays, millions"), entrances(given)))
        sums |= {f"at rest, {kind}": cost for kind, cost in redis_at_rest(given).items()}
        parts = {"region": REGION, "a_million": kinds, "dollars": sums, "redis_alike": redis_alike(given), "audit": large}
        print(json.dumps({"inputs": inputs, "cents_a_million": cents, "log_bytes": logs} | parts))
        return

    for name, (_, meaning) in INPUTS.items():
        print(f"{getattr(given, name.replace('-', '_')):>12g}  {meaning}")
    table("a million", kinds)
    table("a million wins with sends", {kind: parts for kind, parts in millions.items() if kind.startswith("of ")})
    print(f"\nbytes of logs: {grab_log['losses']:.0f} a loss, {grab_log['wins']:.0f} a win, with the access log")
    print("a million losses: {:.2f} with API Gateway, {:.2f} with a load balancer; that costs {:.2f} a month, and less from {:.0f} million on".format(*entrances(given)))
    table("a rush", {f"{given.rush_requests:,.0f}": rush}, digits=4)
    table("a month of small groups", {f"{packets:,.0f}": month})
    rest = redis_at_rest(given)
    print(f"\na month of Redis without a request: serverless {rest['serverless']:.2f}, nodes {rest['nodes']:.2f}")
    print(f"both cost as much with {redis_alike(given):,.0f} losing grabs a second, all month")
    slot = given.slot_ecpus
    print(f"serverless takes {slot / given.loss_ecpus:,.0f} losses or {slot / given.win_ecpus:,.0f} wins a second at first")
    print(f"\nan audit of {CLAIMS_OF_LARGE_LEDGER:,} claims: {large:.2f}; daily for a month: {DAYS_A_MONTH * large:.2f}")


if __name__ == "__main__":
    main()
