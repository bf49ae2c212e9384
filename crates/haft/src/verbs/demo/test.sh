#!/bin/sh
# Checks price.sh.
failed=0

check() {
    expected=$1
    shift
    got=$(sh price.sh "$@")
    if [ "$got" = "$expected" ]; then
        echo "ok    price.sh $*"
    else
        echo "FAIL  price.sh $*: expected $expected, got $got"
        failed=$((failed + 1))
    fi
}

check 500 250 2 0
check 450 250 2 10
check 0 250 2 100

if [ "$failed" -gt 0 ]; then
    echo "$failed of 3 failed"
    exit 1
fi
echo "all 3 passed"
