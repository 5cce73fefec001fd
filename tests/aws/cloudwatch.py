"""How CloudWatch judges an alarm, as its documents describe it."""

def metrics_of(alarm):
    if "MetricName" in alarm:
        return [alarm]
    return [query["MetricStat"]["Metric"] for query in alarm["Metrics"] if "MetricStat" in query]


def ids_of(alarm):
    return ["value"] if "MetricName" in alarm else [query["Id"] for query in alarm["Metrics"] if "MetricStat" in query]


class Series(list):
    """A value for each period, with the operators of metric math that the alarms use. None: no value."""

    def by(self, other, operate):
        """As CloudWatch does: where one of the two has no value, there is no result."""
        others = other if isinstance(other, Series) else [other] * len(self)
        return Series(None if None in (a, b) else operate(a, b) for a, b in zip(self, others))

    def __add__(self, other):
        return self.by(other, lambda a, b: a + b)

    def __sub__(self, other):
        return self.by(other, lambda a, b: a - b)

    def __rmul__(self, other):
        return self.by(other, lambda a, b: b * a)

    def __truediv__(self, other):
        return self.by(other, lambda a, b: a / b if b else None)

    def __gt__(self, other):
        return self.by(other, lambda a, b: a > b)


def values_of(alarm, metrics):
    """The values that the alarm compares with its threshold. `metrics` has a list of values, oldest first, by the id of each metric in the
    alarm's expression; a plain alarm has only `value`."""
    given = {name: Series(values) for name, values in metrics.items()}
    if "MetricName" in alarm:
        return given["value"]
    length = len(next(iter(given.values())))
    spread = lambda value: value if isinstance(value, Series) else [value] * length
    # Over several metrics, a sum or a maximum leaves out those without a value.
    over = lambda reduce: lambda all_of: Series(
        reduce(known) if (known := [value for value in values if value is not None]) else None for values in zip(*all_of)
    )
    functions = {
        "METRICS": lambda: list(given.values()),
        "SUM": over(sum),
        "MAX": over(max),
        "FILL": lambda series, value: Series(value if one is None else one for one in series),
        "RUNNING_SUM": lambda series: Series(sum(series[: i + 1]) for i in range(len(series))),
        "IF": lambda condition, then, other=None: Series(
            None if is_so is None else a if is_so else b for is_so, a, b in zip(condition, spread(then), spread(other))
        ),
    }
    [expression] = [query["Expression"] for query in alarm["Metrics"] if "Expression" in query]
    return eval(expression, {}, functions | given)  # noqa: S307


# CloudWatch reads some periods more than it evaluates, and leaves missing ones out if enough others have a value. The tables of
# "Configuring how CloudWatch alarms treat missing data" show two more for three.
READ_MORE = 2


def verdict(alarm, windows):
    """How many of the values that CloudWatch looks at are beyond the threshold, and how many there are. `windows` has all that it reads."""
    known = [value for value in values_of(alarm, windows) if value is not None][-alarm["EvaluationPeriods"] :]
    is_beyond = {
        "GreaterThanThreshold": lambda value: value > alarm["Threshold"],
        "LessThanThreshold": lambda value: value < alarm["Threshold"],
    }[alarm["ComparisonOperator"]]
    return sum(map(is_beyond, known)), len(known)


def next_state(alarm, before, beyond, known):
    """The alarm's state after a verdict."""
    missing = alarm["TreatMissingData"]
    # The API's reference: always, whatever the alarm says. CloudWatch's guide: unless the alarm says otherwise. No alarm may depend on it.
    if any(metric["Namespace"] == "AWS/DynamoDB" for metric in metrics_of(alarm)):
        missing = "ignore"
    if beyond >= alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"]):
        return "ALARM"
    if missing == "notBreaching" or beyond < known:
        return "OK"
    return "INSUFFICIENT_DATA" if missing == "missing" and not known else before


def state(alarm, before="INSUFFICIENT_DATA", **metrics):
    """The alarm's state after these values of its metrics, oldest first."""
    read = alarm["EvaluationPeriods"] + READ_MORE
    padded = {name: ([None] * read + list(values))[-read:] for name, values in metrics.items()}
    return next_state(alarm, before, *verdict(alarm, padded))
