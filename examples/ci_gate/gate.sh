#!/bin/sh
# Exit code 0: the answers are good enough. 4: they are not. 5: too few answers to decide. 1: some could not be scored.
exec ragtide score "${1:-answers.jsonl}" --labeler local --junit gate.xml \
    --fail-if 'trace.adherence < 0.8' \
    --fail-if 'retrieval.match < 0.4' \
    --fail-if 'trace.adherence.n < 20'
