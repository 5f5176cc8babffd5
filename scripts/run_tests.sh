#!/bin/sh
# All tests, in two processes side by side: scenarios mostly wait for processes of their own. What they say comes last.
pytest=$1
said=$(mktemp)
trap 'kill $scenarios 2>/dev/null; rm -f "$said"' EXIT INT TERM
"$pytest" --durations=10 tests/scenario > "$said" 2>&1 &
scenarios=$!
"$pytest" --durations=10 tests/unit tests/spark src
others=$?
wait $scenarios
status=$?
cat "$said"
[ $others -eq 0 ] && [ $status -eq 0 ]
