#!/usr/bin/env python3
"""Measures hongbao-admin journal and reconcile on an export with a number of movements: journal.py [MOVEMENTS], a million if no other.

A tenth of the movements is before the day, a twentieth after it. Packets have 100 slips: 95 are claimed, one transaction refunds the
others. Needs GNU time (package time).
"""

import csv
import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ADMIN = ROOT / "target/measured/hongbao-admin"
DAY, DAY_AT, DAY_MS = "2026-11-23", 1_795_392_000_000, 86_400_000
FILES, SLIPS, CLAIMED, AMOUNT = 16, 100, 95, 520
# A deposit, a debit, a refund and the claims.
MOVEMENTS_OF_A_PACKET = 3 + CLAIMED


def items(packets):
    """The items of a ledger, as (partition key, sort key, attributes)."""
    dice, users, claims = random.Random(1), packets * 10, Counter()
    for number in range(packets):
        at = DAY_AT - DAY_MS // 10 + number * (DAY_MS * 115 // 100) // packets
        packet, sender, expired = f"{at:011X}{number:013X}00", f"sender-{number}", at + 1000
        meta = {"packet_id": packet, "sender_id": sender, "currency": "CNY", "total_amount": SLIPS * AMOUNT, "created_at": at}
        yield f"PACKET#{packet}", "META", meta | {"ack": "ledger", "status": "settled"}
        first, back = dice.randrange(users), (SLIPS - CLAIMED) * AMOUNT
        yield f"USER#{sender}", f"SENT#{packet}", {"packet_id": packet, "amount": SLIPS * AMOUNT, "at": at}
        yield f"USER#{sender}", "WALLET", {"balance": back, "sent_count": 1, "sent_amount": SLIPS * AMOUNT}
        for kind, name, when, movement in (
            ("DEPOSIT", "first", at, {"id": "first", "amount": SLIPS * AMOUNT}),
            ("REFUND", f"{packet}#{CLAIMED:06}", expired, {"packet_id": packet, "slip_count": SLIPS - CLAIMED, "amount": back}),
        ):
            yield f"USER#{sender}", f"{kind}#{name}", movement | {"at": when}
            yield f"USER#{sender}", f"AT#{kind}#{when:013}#{name}", movement | {"at": when}
        for slip in range(SLIPS):
            decision, user = {"slip": slip, "amount": AMOUNT, "at": at + slip}, f"user-{(first + slip * 7) % users}"
            if slip < CLAIMED:
                claims[user] += 1
                yield f"USER#{user}", f"CLAIM#{packet}", decision | {"packet_id": packet, "sender_id": sender, "greeting": "恭喜发财"}
            yield f"SLIPS#{packet}#{slip // 64}", f"{slip:06}", decision | ({"user_id": user} if slip < CLAIMED else {"at": expired})
    for user, count in claims.items():
        yield f"USER#{user}", "WALLET", {"balance": count * AMOUNT, "claim_count": count, "claim_amount": count * AMOUNT}


def export(folder, packets):
    """Writes the items as DynamoDB's full export does: all items of a partition key are in one file."""
    (folder / "data").mkdir(parents=True)
    names, counts = [f"{number:026}.json.gz" for number in range(FILES)], Counter()
    files = [gzip.open(folder / "data" / name, "wt", 1) for name in names]
    typed = lambda value: {"N": str(value)} if isinstance(value, int) else {"S": value}
    for pk, sk, attributes in items(packets):
        item = {name: typed(value) for name, value in ({"PK": pk, "SK": sk} | attributes).items()}
        files[hash(pk) % FILES].write(json.dumps({"Item": item}, ensure_ascii=False) + "\n")
        counts[hash(pk) % FILES] += 1
    for file in files:
        file.close()
    rows = [{"itemCount": counts[number], "dataFileS3Key": f"AWSDynamoDB/01/data/{name}"} for number, name in enumerate(names)]
    (folder / "manifest-files.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = {"version": "2020-06-30", "exportTime": "2026-11-25T00:00:00.000Z", "itemCount": counts.total()}
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/hongbao/export/01795478400000-2d8752fd"
    summary |= {"exportArn": arn, "outputFormat": "DYNAMODB_JSON", "exportType": "FULL_EXPORT"}
    (folder / "manifest-summary.json").write_text(json.dumps(summary))


def measured(folder, *arguments):
    form = f"{arguments[0]}: %e s, %U s of user CPU, %M KB of memory at most"
    subprocess.run(["/usr/bin/time", "-f", form, ADMIN, *arguments], cwd=folder, check=True)


def main():
    movements = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    subprocess.run("cargo build --profile measured -p admin --no-default-features --bin hongbao-admin".split(), cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as name:
        folder = Path(name)
        export(folder / "export", -(-movements // MOVEMENTS_OF_A_PACKET))
        measured(folder, "journal", "--day", DAY, "--day-zone", "UTC", "--export", "export", "--output", "books")
        # The movements as an app that mirrors them would list them.
        with (folder / "books/journal.csv").open(newline="") as journal, (folder / "transfers.csv").open("w", newline="") as transfers:
            rows = csv.writer(transfers)
            rows.writerow(["id", "kind", "user", "amount", "currency", "time"])
            rows.writerows([row[3], row[1], row[2], row[7], row[8], row[0]] for row in list(csv.reader(journal))[1:])
        measured(folder, "reconcile", "books", "transfers.csv", "--kinds", "deposit,withdrawal,sent,claim,refund")


if __name__ == "__main__":
    main()
