"""Weeks of each alarm, minute by minute: in a healthy one it stays quiet, and in one with a fault it is raised in time and ends.

A new metric needs its healthy minutes here, and a new alarm its faults.
"""

import functools
import json
import re
from dataclasses import dataclass

import pytest
from cloudwatch import ids_of, metrics_of, next_state, verdict
from emulated import STACK, client
from transformed import source

HOUR, DAY, WEEK = 60, 24 * 60, 7 * 24 * 60
AUDITED_AT, RUSH_AT, RUSH = 10 * HOUR + 17, 20 * HOUR, 10
FAULT_AT = 3 * DAY + 12 * HOUR
FAULT_AFTER_AUDIT = 3 * DAY + AUDITED_AT + 1


# --- a healthy week: what each metric reports in a minute of the day. None: nothing.


def requests(minute):
    """Quiet nights, and a rush in the evening."""
    if minute < 7 * HOUR:
        return None if minute % 7 else 1
    return 6_000 if RUSH_AT <= minute < RUSH_AT + RUSH else 60


def during_requests(usual, in_rush=None, odd=None):
    """What is only reported with requests. `odd` is what the first two minutes of a rush are like: no alarm may ring for so short a time."""

    def reported(minute):
        if requests(minute) is None:
            return None
        if odd is not None and RUSH_AT <= minute < RUSH_AT + 2:
            return odd
        return in_rush if in_rush is not None and RUSH_AT <= minute < RUSH_AT + RUSH else usual

    return reported


def only_in_a_rush(value, minutes=2):
    """What is only reported if it is above zero."""
    return lambda minute: value if RUSH_AT <= minute < RUSH_AT + minutes else None


def always(usual, in_rush=None, minutes=RUSH):
    return lambda minute: in_rush if in_rush is not None and RUSH_AT <= minute < RUSH_AT + minutes else usual


def at_the_audit(value):
    return lambda minute: value if minute == AUDITED_AT else None


def once(usual, at, odd):
    return lambda minute: odd if minute == at else usual


nothing = always(None)
BACKGROUND = {"Settle": always(2), "Audit": at_the_audit(1)}
# Functions that receive requests or what follows from them.
WITH_REQUESTS = ("Send", "Grab", "View", "Wallet", "PublishToBus", "PublishToQueue", "Notify")
# A load balancer's own answers if a function crashed or was refused, or if it has none. It counts 501 and 505 too, which anybody can ask for.
BROKEN = (500, 502, 503, 504)
HEALTHY = {
    "Errors Settle": once(0, 3 * HOUR, 1),
    "Errors Audit": at_the_audit(0),
    "Throttles Settle": once(0, 4 * HOUR, 1),
    "Throttles Audit": at_the_audit(0),
    **{f"Invocations {function}": minutes for function, minutes in BACKGROUND.items()},
    **{f"Invocations {function}": requests for function in WITH_REQUESTS},
    **{f"Errors {function}": during_requests(0) for function in WITH_REQUESTS},
    **{f"Throttles {function}": during_requests(0, odd=20) for function in WITH_REQUESTS},
    **{f"IteratorAge {function}": during_requests(300, 20_000) for function in WITH_REQUESTS},
    # Milliseconds. Of a few calls in a night, p99 is the slowest.
    **{f"Duration {function}": during_requests(40, 400, odd=1_500) for function in WITH_REQUESTS},
    # The engine's.
    "OutboxAge": always(0, 60_000),
    "Parked": always(0),
    "DueAge": always(0, 90),
    "PendingAge": always(0, 6 * 3600, minutes=3 * HOUR),
    "AuditImbalances": at_the_audit(0),
    "AuditUnjudged": at_the_audit(0),
    "AuditUnfinished": at_the_audit(0),
    "Repairs": nothing,
    "WebhookAge": only_in_a_rush(60),
    "WebhooksDisabled": only_in_a_rush(0),
    # Entrances. Four functions answer the requests that they count; some requests are refused.
    "Count": lambda minute: requests(minute) and 4 * requests(minute) + 20,
    "5xx": during_requests(0, odd=30),
    "IntegrationLatency": during_requests(40, 400),
    "RequestCount": lambda minute: requests(minute) and 3 * requests(minute),
    "TargetResponseTime": during_requests(0.04, 0.4),
    "HTTPCode_ELB_4XX_Count": during_requests(20),
    "HTTPCode_Target_5XX_Count": only_in_a_rush(20, minutes=1),
    **{f"HTTPCode_ELB_{code}_Count": only_in_a_rush(20, minutes=1) for code in ("5XX", *BROKEN)},
    # The table reports nothing where nothing happens.
    "ReadThrottleEvents": only_in_a_rush(50),
    "WriteThrottleEvents": only_in_a_rush(50),
    "TransactionConflict": only_in_a_rush(300, minutes=RUSH),
    # Redis.
    "DatabaseMemoryUsagePercentage": always(30, 60),
    "EngineCPUUtilization": always(2, 70),
    "CurrConnections": always(200, 5_000),
    "Evictions": always(0),
    "TrafficManagementActive": always(0, 1, minutes=2),
    "ThrottledCmds": always(0, 30, minutes=2),
    "BytesUsedForCache": always(10**8, 3 * 10**9),
    # Queues are silent six hours after their last message.
    "ApproximateAgeOfOldestMessage": lambda minute: None if minute < 6 * HOUR else 20,
    "ApproximateNumberOfMessagesVisible": lambda minute: None if minute < 6 * HOUR else 0,
    # Backups report failures only.
    "NumberOfBackupJobsFailed": nothing,
    "NumberOfCopyJobsFailed": nothing,
}

# Behind a load balancer, API Gateway has the requests to one function.
BEHIND_BALANCER = {"Count": lambda minute: requests(minute) and requests(minute) + 20}


# --- weeks with a fault


@dataclass
class Fault:
    """What the metrics report in its time: a value, or a function of what they would report. The alarm must be raised `within` some minutes of
    its begin, and not `before` others."""

    metrics: dict
    within: int
    lasts: int = 2 * HOUR
    before: int = 0
    begins: int = FAULT_AT


def if_reported(value):
    return lambda was: None if was is None else value


def more(value):
    return lambda was: (was or 0) + value


FAULTS = {
    "ApiFaults": [
        Fault({"5xx": more(50)}, within=5),
        Fault({"HTTPCode_Target_5XX_Count": 50}, within=5),
        *(Fault({f"HTTPCode_ELB_{code}_Count": 50}, within=5) for code in BROKEN),
    ],
    "AuditImbalance": [Fault({"AuditImbalances": if_reported(1)}, within=DAY, lasts=DAY)],
    "AuditMissing": [
        Fault({"AuditUnfinished": None}, begins=FAULT_AFTER_AUDIT, lasts=2 * DAY, before=30 * HOUR - 1, within=32 * HOUR),
        # Runs stop before their end, and nothing continues them.
        Fault({"AuditUnfinished": if_reported(1)}, begins=FAULT_AFTER_AUDIT, lasts=2 * DAY, before=30 * HOUR - 1, within=32 * HOUR),
        # The first audit of a new deployment never ends.
        Fault({"AuditUnfinished": None}, begins=0, lasts=WEEK, before=30 * HOUR - 1, within=32 * HOUR),
    ],
    "AuditUnjudged": [Fault({"AuditUnjudged": if_reported(1)}, within=DAY, lasts=DAY)],
    "BackupsFailing": [
        Fault({"NumberOfBackupJobsFailed": 1}, within=2 * HOUR, lasts=1),
        Fault({"NumberOfCopyJobsFailed": 1}, within=2 * HOUR, lasts=1),
    ],
    "DeadLetters": [Fault({"ApproximateNumberOfMessagesVisible": 1}, within=5)],
    "EventsFailing": [
        Fault({"IteratorAge PublishToBus": 90_000}, within=7),
        Fault({"IteratorAge PublishToQueue": 90_000}, within=7),
    ],
    "FunctionErrors": [Fault({f"Errors {one}": 2}, within=5) for one in ("Send", "Grab", "View", "Wallet", "Settle")],
    "FunctionThrottles": [Fault({f"Throttles {one}": 2}, within=6) for one in ("Send", "Grab", "View", "Wallet", "Settle")],
    "GatewayRefusals": [Fault({"Count": more(500)}, within=6), Fault({"HTTPCode_ELB_4XX_Count": 500}, within=6)],
    "GrabLatency": [Fault({"Duration Grab": 2_000}, within=6)],
    "OutboxAge": [Fault({"OutboxAge": 300_000}, within=5)],
    "OutboxParked": [Fault({"Parked": 1}, within=6)],
    "RedisConnections": [Fault({"CurrConnections": 60_000}, within=6)],
    "RedisCpu": [Fault({"EngineCPUUtilization": 95}, within=6)],
    "RedisEvictions": [Fault({"Evictions": 1}, within=4)],
    "RedisMemory": [Fault({"DatabaseMemoryUsagePercentage": 90}, within=6)],
    "RedisServerlessEvictions": [Fault({"Evictions": 1}, within=4)],
    "RedisServerlessMemory": [Fault({"BytesUsedForCache": 9 * 10**9}, within=6)],
    "RedisServerlessThrottles": [Fault({"ThrottledCmds": 5}, within=6)],
    "RedisTraffic": [Fault({"TrafficManagementActive": 1}, within=6)],
    "RefundsLate": [Fault({"DueAge": 1_200}, within=5)],
    "Repairs": [Fault({"Repairs": 1}, within=4, lasts=1)],
    "SettleMissing": [
        Fault({"Invocations Settle": None, "Errors Settle": None}, within=20),
        # One of two schedules stops.
        Fault({"Invocations Settle": 1}, within=20),
        Fault({"Errors Settle": 2}, within=20),
    ],
    "TableThrottles": [Fault({"ReadThrottleEvents": 5}, within=6), Fault({"WriteThrottleEvents": 5}, within=6)],
    "TransactionConflicts": [Fault({"TransactionConflict": 900}, within=6)],
    "WebhooksDisabled": [Fault({"WebhooksDisabled": 1}, within=5, lasts=1)],
    "WebhooksLate": [Fault({"ApproximateAgeOfOldestMessage": 1_200}, within=10), Fault({"WebhookAge": 1_200}, within=10)],
    "WithdrawalPending": [Fault({"PendingAge": 25 * 3600}, within=5)],
}

# --- replaying a week

# CloudWatch reads some periods more than it evaluates; how many, no document says.
READ_MORE = (0, 10)
# The newest minutes of one service may come later than those of another.
LATE = 2


def week_of(name, others, fault=None):
    """What a metric reports in each minute of the week, beside the other metrics of its alarm."""
    of_day = (HEALTHY | BEHIND_BALANCER if "RequestCount" in others else HEALTHY)[name]
    healthy = [of_day(minute % DAY) for minute in range(WEEK)]
    if fault is None or name not in fault.metrics:
        return healthy
    value = fault.metrics[name]
    faulty = value if callable(value) else lambda was: value
    during = range(fault.begins, min(fault.begins + fault.lasts, WEEK))
    return [faulty(was) if minute in during else was for minute, was in enumerate(healthy)]


STATISTICS = {"Sum": sum, "Maximum": max, "Minimum": min, "Average": lambda values: sum(values) / len(values), "p99": max}


def periods_of(values, statistic, length, late):
    """The value of the period that ends with each minute. The newest `late` minutes have not come."""

    @functools.cache
    def value_of(minutes):
        known = [value for value in minutes if value is not None]
        return STATISTICS[statistic](known) if known else None

    return [value_of(tuple(values[max(0, end - length) : max(0, end - late)])) for end in range(1, len(values) + 1)]


@dataclass(frozen=True)
class Watched:
    """A metric of an alarm."""

    id: str
    name: str
    namespace: str
    statistic: str


class Alarm:
    """An alarm, what it watches, and the length of its periods in minutes."""

    def __init__(self, given, watched, length):
        self.given, self.watched, self.length = given, watched, length
        # Each different row of values, and what CloudWatch says of each window of rows: weeks have few of both.
        self.rows, self.verdicts = {}, {}
        # Those of more than a day are evaluated at each hour.
        self.step = HOUR if length * given["EvaluationPeriods"] > DAY else 1

    def rows_of(self, weeks, namespace=None, late=0):
        """For each minute the number of the row of values whose period ends with it. Those of a namespace may be late."""
        periods = [
            periods_of(weeks[one.id], one.statistic, self.length, late if one.namespace == namespace else 0) for one in self.watched
        ]
        return [self.rows.setdefault(row, len(self.rows)) for row in zip(*periods)]

    def verdict(self, window):
        if window not in self.verdicts:
            rows = list(self.rows)
            columns = zip(*(rows[number] for number in window))
            self.verdicts[window] = verdict(self.given, {one.id: list(values) for one, values in zip(self.watched, columns)})
        return self.verdicts[window]

    def replay(self, in_time, newest, read_more):
        """The minutes of a week at which it is in the state ALARM. `newest` has the rows that are late, the newest first."""
        nothing = self.rows.setdefault((None,) * len(self.watched), len(self.rows))
        read = self.given["EvaluationPeriods"] + read_more
        before = [nothing] * (read * self.length)
        in_time, state, raised = before + in_time, "INSUFFICIENT_DATA", []
        for minute in range(self.step - 1, WEEK, self.step):
            end = minute + len(before)
            window = in_time[end - (read - 1) * self.length : end + 1 : self.length]
            for back, rows in enumerate(newest):
                if minute >= back * self.length:
                    window[-1 - back] = rows[minute - back * self.length]
            state = next_state(self.given, state, *self.verdict(tuple(window)))
            if state == "ALARM":
                raised.append(minute)
        return raised

    def replays(self, fault=None, late=LATE):
        """A week, with each number of periods that are read, and with the newest minutes of each service being late."""
        names = {one.name for one in self.watched}
        weeks = {one.id: week_of(one.name, names, fault) for one in self.watched}
        in_time = self.rows_of(weeks)
        for read_more in READ_MORE:
            yield self.replay(in_time, [], read_more)
        for namespace in sorted({one.namespace for one in self.watched}):
            newest = [self.rows_of(weeks, namespace, late_by) for late_by in range(late, 0, -self.length)]
            yield self.replay(in_time, newest, READ_MORE[1])


def name_of(metric, functions):
    """The metric's name, and its function's if it is one's."""
    dimensions = {dimension["Name"]: dimension["Value"] for dimension in metric.get("Dimensions", [])}
    return " ".join([metric["MetricName"], *([functions[dimensions["FunctionName"]]] if "FunctionName" in dimensions else [])])


def alarms_of(stack):
    functions = {physical: logical for logical, physical in stack.ids.items()}
    for alarm in client("cloudwatch").describe_alarms(MaxRecords=100)["MetricAlarms"]:
        stats = [query["MetricStat"] for query in alarm.get("Metrics", []) if "MetricStat" in query]
        stats = stats or [{"Stat": alarm.get("Statistic") or alarm["ExtendedStatistic"], "Period": alarm["Period"]}]
        watched = [
            Watched(one, name_of(metric, functions), metric["Namespace"], stat["Stat"])
            for one, metric, stat in zip(ids_of(alarm), metrics_of(alarm), stats)
        ]
        [length] = {stat["Period"] // 60 for stat in stats}
        yield alarm["AlarmName"].removeprefix(f"{STACK}-"), Alarm(alarm, watched, length)


# Most alarms are the same in each deployment: one replay suffices.
REPLAYED = set()


@pytest.fixture(scope="module")
def alarms(stack):
    return dict(alarms_of(stack))


@pytest.fixture
def new_alarms(alarms, request):
    def is_new(alarm):
        judged = ("Threshold", "ComparisonOperator", "EvaluationPeriods", "DatapointsToAlarm", "TreatMissingData")
        expressions = [query.get("Expression") for query in alarm.given.get("Metrics", [])]
        rule = [expressions, [alarm.given.get(name) for name in judged], [vars(one) for one in alarm.watched]]
        key = json.dumps([request.function.__name__, rule])
        return key not in REPLAYED and not REPLAYED.add(key)

    return {name: alarm for name, alarm in alarms.items() if is_new(alarm)}


def test_each_alarm_has_its_weeks(stack, alarms):
    made = [one["Properties"] for one in stack.template["Resources"].values() if one["Type"] == "AWS::CloudWatch::Alarm"]
    assert {alarm["AlarmName"]["Fn::Sub"].partition("-")[2] for alarm in made} == set(FAULTS)
    assert {one.name for alarm in alarms.values() for one in alarm.watched} <= set(HEALTHY)


def test_a_healthy_week_brings_no_mail(new_alarms):
    raised = {name: max(map(len, alarm.replays())) for name, alarm in new_alarms.items()}
    assert not {name: minutes for name, minutes in raised.items() if minutes}


def test_a_week_with_a_fault_raises_its_alarm_in_time_and_ends_it(new_alarms):
    for name, alarm in new_alarms.items():
        faults = [fault for fault in FAULTS[name] if set(fault.metrics) & {one.name for one in alarm.watched}]
        assert faults, name
        for fault in faults:
            for raised in alarm.replays(fault):
                assert raised, f"{name} is not raised by {fault}"
                assert fault.before <= raised[0] - fault.begins <= fault.within, (name, raised[0] - fault.begins, fault)
                assert raised[-1] < WEEK - 1 or fault.begins + fault.lasts >= WEEK, f"{name} stays raised after {fault}"


def test_a_canary_lasts_until_its_alarms_are_raised():
    template = source()
    canary = int(re.search(r"(\d+)Minutes", template["Parameters"]["Rollout"]["Default"])[1])
    for name in template["Globals"]["Function"]["DeploymentPreference"]["Alarms"]["Fn::If"][1]:
        assert max(fault.within for fault in FAULTS[name["Fn::Sub"].partition("-")[2]]) < canary
