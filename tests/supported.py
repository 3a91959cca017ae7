#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of what is built, between the README's markers: supported.py RATIFY_RUN README [--write]

Made from the policy list that ratify-run prints; without --write a README that differs is a failure."""
import json
import pathlib
import subprocess
import sys

program, readme = sys.argv[1], pathlib.Path(sys.argv[2])
built = json.loads(subprocess.run([program, "--list", "--json"], check=True, capture_output=True, text=True).stdout)
rows = {}
for policy in built:
    row = rows.setdefault(policy["operation"], {"header": policy["header"], "count": 0, "knobs": {}})
    row["count"] += 1
    for key, value in policy["policy"].items():
        values = row["knobs"].setdefault(key, [])
        if value not in values:
            values.append(value)
lines = ["| operation | header | policies | knobs |", "|---|---|---|---|"]
for name, row in sorted(rows.items()):
    knobs = "; ".join(f"{k} {', '.join(sorted(v, key=lambda x: (len(x), x)))}" for k, v in row["knobs"].items())
    lines.append(f"| `{name}` | [{row['header'].split('/')[1]}](include/{row['header']}) | {row['count']} | {knobs} |")
begin, end = "<!-- supported -->\n", "<!-- /supported -->"
text = readme.read_text()
head, rest = text.split(begin)
new = head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]
if "--write" in sys.argv:
    readme.write_text(new)
elif new != text:
    sys.exit("the README's table is not what ratify-run lists: run tests/supported.py RATIFY_RUN README.md --write")
print(f"{len(built)} policies of {len(rows)} operations")
